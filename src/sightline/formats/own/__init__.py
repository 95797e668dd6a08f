"""What sightline itself records."""
