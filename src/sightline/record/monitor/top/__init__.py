"""`sightline top`: what is on the screen (`screen`), the terminal around it (`app`), as data."""
