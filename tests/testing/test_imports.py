import subprocess
import sys


def test_the_test_kit_needs_no_spark() -> None:
    code = "import sys, millstream.testing; print(sorted({'pyspark', 'py4j'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
