"""What an XID asks for: severity, who acts and text by the catalogue alone."""

from __future__ import annotations

import pytest

from sightline.answer.explain import explain_name
from sightline.core.xids import (
    ACTIONS,
    RECOVERY,
    describe_recovery,
    describe_xid,
    explain_xid,
    list_xids,
    look_up_action,
    read_xid,
)
from sightline.errors import RequestError


@pytest.mark.parametrize(
    ("codes", "severity", "drain", "text"),
    [
        ((43, 63, 92), "info", False, "no action is needed"),
        ((13, 31, 94), "warning", False, "restart the application"),
        ((79,), "critical", True, "drain and reboot the node"),
        ((46, 95, 119, 120, 140), "critical", True, "drain the node and reset the GPU"),
        ((151,), "critical", True, "drain and restart the virtual machine"),
        ((78,), "warning", False, "update driver and firmware"),
        ((163,), "critical", True, "drain and reboot the node"),  # gpud's: NVIDIA names none
        ((162,), "info", False, "no action is needed"),  # gpud's event
    ],
)
def test_actions_are_the_catalogues(
    codes: tuple[int, ...], severity: str, drain: bool, text: str
) -> None:
    for code in codes:
        action = look_up_action(code)
        assert (action.severity, action.drain, action.text) == (severity, drain, text), code


def test_every_xid_is_explained() -> None:
    xids = list_xids()
    assert sorted(xids) == list(range(1, 173))
    used = {xid.immediate for xid in xids.values()} - {""}
    assert used == set(ACTIONS)
    for code, xid in xids.items():
        page = explain_name(f"xid {code}")
        assert page == explain_xid(code)
        assert page.startswith(f"XID {code}: {xid.meaning}\n")
        assert f"Severity      {xid.action.severity}\n" in page
        assert xid.meaning and "Unused" not in page


def test_names_of_an_xid() -> None:
    page = explain_name("xid 79")
    assert page == explain_name("XID79") == explain_name("xid:79") == explain_name("xid-79")
    assert len(explain_name("xid").splitlines()) == 174
    for wrong in ("xid seven", "xid 0", "xid 123456"):
        with pytest.raises(RequestError, match="is not an XID number"):
            explain_name(wrong)
    with pytest.raises(RequestError, match="there is no rule"):
        explain_name("xid-storm")
    assert "not in the catalog" in explain_name("xid 999")


def test_a_code_that_is_newer_than_the_catalogue() -> None:
    assert look_up_action(999).severity == "warning"
    assert describe_xid(999).startswith("not in the catalog: it is newer")


def test_the_number_in_an_events_text() -> None:
    assert read_xid("XID 79: pid=1, GPU has fallen off the bus.") == 79
    assert read_xid("SXID 12028: ...") is None


def test_recovery_actions_are_those_of_nvml() -> None:
    pynvml = pytest.importorskip("pynvml")
    names = {
        getattr(pynvml, name): name.removeprefix("NVML_GPU_RECOVERY_ACTION_")
        for name in vars(pynvml)
        if name.startswith("NVML_GPU_RECOVERY_ACTION_")
    }
    ours = {n: one.name.upper().replace(" ", "_") for n, one in enumerate(RECOVERY)}
    assert ours == names
    assert describe_recovery(0) == ""
    assert describe_recovery(1) == "The driver asks for recovery (GPU reset): reset the GPU."
