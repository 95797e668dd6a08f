"""One line for each framework: its callback, which records a few steps of a training.

    from sightline.integrations.lightning import SightlineCallback
    trainer = Trainer(callbacks=[SightlineCallback("runs")])

Each module imports its framework and nothing else, and is imported by whoever uses that. The page:
docs/integrations.md.
"""
