"""The service of a cluster's jobs over HTTP: who asks, what for, and the answer."""
