"""Send the code of an app to the executors of a cluster, so that they import what the driver has imported."""

from __future__ import annotations

import functools
import hashlib
import io
import sys
import tempfile
import zipfile
from pathlib import Path

from pyspark import SparkContext

from millstream.foundation.loading import AppReference, package_root


def send_code(context: SparkContext, reference: AppReference) -> None:
    """Put the app's module, and the modules of its directory that it has imported, on the path of all workers."""
    if reference.file is None:
        return
    path = store_archive(archive_of(package_root(Path(reference.file).parent)))
    if path.name not in (context._python_includes or ()):  # sent by an earlier attempt, or for another app of this file
        context.addPyFile(str(path))


def store_archive(archive: bytes) -> Path:
    """Return the file with an archive; Spark refuses a file whose name it knows from another directory."""
    path = Path(_directory().name) / f"{hashlib.sha256(archive).hexdigest()[:16]}.zip"
    path.write_bytes(archive)
    return path


@functools.cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    """Return a directory that is deleted when this process ends."""
    return tempfile.TemporaryDirectory(prefix="millstream-")


def archive_of(root: Path) -> bytes:
    """Return a zip file with the source of all imported modules below a directory, except installed packages."""
    files = {_source_of(module) for module in list(sys.modules.values())}
    names = {
        str(file.relative_to(root)): file
        for file in files
        if file is not None and file.is_relative_to(root) and not _is_installed(file, root)
    }
    for name in list(names):
        for parent in list(Path(name).parents)[:-1]:
            init = root / parent / "__init__.py"
            if init.is_file():
                names[str(parent / "__init__.py")] = init
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, file in sorted(names.items()):
            archive.writestr(zipfile.ZipInfo(name), file.read_bytes())  # without times, so that equal code is equal
    return buffer.getvalue()


def _source_of(module: object) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).absolute() if isinstance(file, str) and file.endswith(".py") else None


def _is_installed(file: Path, root: Path) -> bool:
    parts = file.relative_to(root).parts
    return "site-packages" in parts or "dist-packages" in parts
