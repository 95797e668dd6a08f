"""A marimo notebook: `marimo run examples/marimo_report.py`; `python` runs it, too."""

import marimo

app = marimo.App()


@app.cell
def _():
    from pathlib import Path

    import sightline

    run = sightline.open(Path(__file__).parent / "simulated-dataloader.json.gz")
    return (run,)


@app.cell
def _(run):
    findings = run.findings()
    findings  # noqa: B018
    return (findings,)


@app.cell
def _(run):
    run.breakdown()
    return


@app.cell
def _(run):
    run.flame()
    return


if __name__ == "__main__":
    app.run()
