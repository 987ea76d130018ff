# These have no doctests for this environment: the applications' own files run in theirs.
collect_ignore_glob = [
    "*conftest.py",
    "benchmarks/*",
    "scripts/*",
    "src/webtraj_apps/*/*.py",
    "src/webtraj_apps/django_worlds.py",
    "src/webtraj_apps/serve.py",
    "src/webtraj_apps/voices.py",
]
