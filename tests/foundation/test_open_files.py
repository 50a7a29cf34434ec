from __future__ import annotations

import subprocess
import sys

CODE = """
import resource
from millstream.foundation.open_files import raise_open_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
print(raise_open_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_to_the_hard_limit() -> None:
    process = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "128 (128, 128)"
