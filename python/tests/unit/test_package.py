"""The package itself: what importing it needs, which torch it accepts."""

from __future__ import annotations

import subprocess
import sys

import pytest

import shardwright
from shardwright import _torch_version

WITHOUT_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"no {name} here", name=name)

sys.meta_path.insert(0, Refuse())
import shardwright
from shardwright import _core
print(shardwright.__version__, _core.sha256("")[:8])
"""


def test_import_needs_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{shardwright.__version__} e3b0c442\n"


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        shardwright.no_such_thing  # noqa: B018


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("2.13.0", True),
        ("2.13.0+cpu", True),
        ("2.13.2", True),
        ("2.12.1", False),
        ("2.14.0", False),
        ("2.14.0a0+git1234", False),
        ("3.13.0", False),
        ("nonsense", False),
    ],
)
def test_supported_torch(version: str, supported: bool) -> None:
    assert _torch_version.is_supported(version) is supported


def test_other_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_torch_version, "torch_version", lambda: "2.9.1+cu128")
    with pytest.raises(shardwright.VersionMismatchError) as caught:
        _torch_version.require_torch("capture")
    message = str(caught.value)
    assert message.startswith("[capture] ")
    assert "2.9.1+cu128" in message
    assert _torch_version.SUPPORTED_TORCH in message


def test_missing_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_torch_version, "torch_version", lambda: None)
    with pytest.raises(shardwright.VersionMismatchError, match="not installed"):
        _torch_version.require_torch("execute")


def test_installed_torch_is_accepted() -> None:
    torch = pytest.importorskip("torch")
    assert _torch_version.require_torch("capture") == torch.__version__
