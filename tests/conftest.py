# Every folder may have a conftest.py. The collection of doctests would import each of them as the
# one module `conftest`.
collect_ignore_glob = ["*conftest.py"]
