"""An inference server's steps, requests and tokens: which phase, which bubble, which limit."""

from sightline.core.registry import OF_THREAD, Subject

SUBJECT = Subject("serving", "Serving", share_without_device=OF_THREAD, ahead=4)
