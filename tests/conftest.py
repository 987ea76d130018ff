# Every folder may have a conftest.py. The collection of doctests would import each of them as the
# one module `conftest`.
collect_ignore_glob = ["*conftest.py"]

from bucket_servers import (  # noqa: E402, F401
    bucket_options,
    bucket_url,
    fault_proxy,
    proxied_options,
    s3_server,
    s3_servers,
)
