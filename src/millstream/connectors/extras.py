"""Optional packages: each connector imports its own when it is opened."""

from __future__ import annotations

from millstream.errors import DefinitionError


def missing_package(package: str, extra: str) -> DefinitionError:
    """Return the error for a connector whose package is not installed."""
    return DefinitionError(
        f"the package {package!r} is not installed", hint=f"run: pip install 'millstream[{extra}]'", package=package
    )
