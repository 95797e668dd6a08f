"""Many ranks: each is reduced to what others need of it, then all are one job."""
