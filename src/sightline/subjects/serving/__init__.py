"""An inference server's steps, requests and tokens: which phase, which bubble, which limit."""

from sightline.core.registry import Subject

SUBJECT = Subject("serving", "Serving")
