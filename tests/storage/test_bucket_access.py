"""Who may use a bucket, from where credentials come, and that they are never shown."""

import contextlib
import datetime
import logging
import stat
import sys
import textwrap
import traceback

import pytest

from bucket_servers import QUICK
from fault_proxy import Fault
from webtraj import errors
from webtraj.store.bucket import BucketStorage
from webtraj.store.credentials import find_profile
from webtraj.store.places import open_storage

CALLS = {
    "read": lambda storage: storage.read("a"),
    "write": lambda storage: storage.write("a", b"1"),
    "write in parts": lambda storage: storage.write("a", bytes(9 << 20)),
    "create": lambda storage: storage.write("a", b"1", overwrite=False),
    "size": lambda storage: storage.size("a"),
    "list": lambda storage: list(storage.list()),
    "delete": lambda storage: storage.delete("a"),
}


@pytest.fixture(autouse=True)
def no_credentials_around(monkeypatch, tmp_path):
    for name in (
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
        "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_missing_bucket_is_told(s3_server, call):
    storage = open_storage("s3://no-such-bucket/prefix", s3_server.options(**QUICK))
    with pytest.raises(errors.StorageMissingError, match=r"no such bucket\. Create it"):
        call(storage)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("wrong", ["access_key_id", "secret_access_key"])
def test_wrong_credentials_are_told_at_once(bucket_url, proxied_options, fault_proxy, call, wrong):
    storage = open_storage(bucket_url, {**proxied_options, wrong: "AKIAWRONGWRONGWRONG"})
    with pytest.raises(errors.StorageDeniedError, match="Check the credentials"):
        call(storage)
    assert len(fault_proxy.seen) == 1


@pytest.mark.slow
@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
def test_credentials_are_never_shown(bucket_url, proxied_options, fault_proxy, caplog):
    caplog.set_level(logging.DEBUG)
    secret, token = "hush/+Secret0123456789", "hush/+Token0123456789"
    storage = open_storage(
        bucket_url,
        {
            **proxied_options,
            "secret_access_key": secret,
            "session_token": token,
            "retry": {"deadline": 0.05},
        },
    )
    faults = [
        Fault(),
        Fault(status=500, code="InternalError"),
        # A store that repeats what it should not know.
        Fault(status=403, code="Denied</Code><Message>" + secret + token + "</Message><Code>"),
        Fault(refuse=True),
        Fault(status=418, code=secret),
    ]
    texts = [repr(storage), str(storage), storage.url, repr(vars(storage))]
    for fault in faults:
        fault_proxy.clear()
        fault_proxy.inject(fault)
        for call in CALLS.values():
            try:
                call(storage)
            except errors.StorageError as error:
                texts += [repr(error), str(error), *getattr(error, "__notes__", ())]
                texts += traceback.format_exception(error)
                texts += [
                    repr(value)[:10_000]
                    for frame, _ in traceback.walk_tb(error.__traceback__)
                    if "/webtraj/store/" in frame.f_code.co_filename
                    for value in frame.f_locals.values()
                ]
    assert len(texts) > 60
    for text in (*texts, caplog.text):
        assert secret not in text
        assert token not in text


@pytest.mark.parametrize(
    "url",
    ["s3://key:hush@bucket/a", "s3://hush@bucket/a", "s3://bucket/a?sig=hush", "s3://b/a#hush",
     "gs://key:hush@bucket", "abfss://container:hush@account/a", "ftp://key:hush@bucket"],
)  # fmt: skip
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    for open_it in (open_storage, BucketStorage):
        with pytest.raises(errors.InvalidInputError) as caught:
            open_it(url)
        assert "hush" not in "".join(traceback.format_exception(caught.value, chain=True)).replace(
            url, ""
        )
        assert "hush" not in str(caught.value)


def test_options_that_do_not_open_are_told_without_their_values():
    with pytest.raises(errors.InvalidInputError, match=r"Check the options.*server_side") as caught:
        BucketStorage("s3://bucket", sse="rot13", access_key_id="a", secret_access_key="hush")
    assert "hush" not in "".join(traceback.format_exception(caught.value)).replace(
        'secret_access_key="hush"', ""
    )


def without_keys(options):
    return {name: options[name] for name in options if "key" not in name}


def test_credentials_come_from_the_environment(bucket_url, bucket_options, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", bucket_options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", bucket_options["secret_access_key"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket_options["endpoint"])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    storage = open_storage(bucket_url)
    storage.write("a", b"1")
    assert storage.read("a") == b"1"


def write_credentials(home, name, options, key="access_key_id"):
    folder = home / ".aws"
    folder.mkdir(exist_ok=True)
    with (folder / "credentials").open("a") as file:
        file.write(
            f"[{name}]\naws_access_key_id = {options[key]}\n"
            f"aws_secret_access_key = {options['secret_access_key']}\n"
        )


@pytest.mark.parametrize("how", ["option", "environment", "default"])
def test_credentials_come_from_a_profile(bucket_url, bucket_options, monkeypatch, tmp_path, how):
    name = "default" if how == "default" else "lab"
    write_credentials(tmp_path, "other", {**bucket_options, "access_key_id": "AKIAOTHER"})
    write_credentials(tmp_path, name, bucket_options)
    (tmp_path / ".aws" / "config").write_text(
        f"[{name if name == 'default' else f'profile {name}'}]\nregion = us-east-1\n"
        f"endpoint_url = {bucket_options['endpoint']}\n"
    )
    options = {"allow_http": True, **QUICK}
    if how == "option":
        options["profile"] = name
    elif how == "environment":
        monkeypatch.setenv("AWS_PROFILE", name)
    storage = open_storage(bucket_url, options)
    storage.write("a", b"1")
    assert storage.read("a") == b"1"


def test_keys_of_the_environment_come_before_a_profile(
    bucket_url, bucket_options, monkeypatch, tmp_path
):
    write_credentials(tmp_path, "lab", {**bucket_options, "access_key_id": "AKIAOTHER"})
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", bucket_options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", bucket_options["secret_access_key"])
    options = without_keys(bucket_options)
    open_storage(bucket_url, options).write("a", b"1")
    with pytest.raises(errors.StorageDeniedError):
        open_storage(bucket_url, {**options, "profile": "lab"}).write("a", b"1")


def test_a_profile_may_name_a_process(bucket_url, bucket_options, tmp_path):
    process = tmp_path / "credentials.sh"
    process.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        echo '{{"Version": 1, "AccessKeyId": "{bucket_options["access_key_id"]}",
              "SecretAccessKey": "{bucket_options["secret_access_key"]}"}}'
        """)
    )
    process.chmod(process.stat().st_mode | stat.S_IXUSR)
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "config").write_text(f"[profile lab]\ncredential_process = {process}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
        storage = open_storage(bucket_url, {**without_keys(bucket_options), "profile": "lab"})
        storage.write("a", b"1")
        assert storage.read("a") == b"1"


def test_a_profile_that_needs_boto3_says_so_without_it(tmp_path, monkeypatch):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile lab]\nrole_arn = arn:aws:iam::1:role/x\n")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(errors.MissingDependencyError, match="pip install boto3"):
        BucketStorage("s3://bucket", profile="lab")


def test_a_profile_that_is_nowhere_is_told(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "lab")
    with pytest.raises(errors.InvalidInputError, match="No AWS profile 'lab'"):
        BucketStorage("s3://bucket")


def test_a_profile_without_secret_is_told(bucket_url, bucket_options, tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[lab]\naws_access_key_id = AKIAX\n")
    storage = open_storage(bucket_url, {**without_keys(bucket_options), "profile": "lab"})
    with pytest.raises(errors.StorageError, match="aws_secret_access_key"):
        storage.read("a")


def test_a_file_that_holds_no_profiles_is_not_quoted(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("aws_secret_access_key = hush\n")
    with pytest.raises(errors.InvalidInputError, match="as a file of AWS profiles") as caught:
        BucketStorage("s3://bucket")
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_a_profile_is_read_again(tmp_path):
    write_credentials(tmp_path, "default", {"access_key_id": "one", "secret_access_key": "s"})
    provider = find_profile(None, {"HOME": str(tmp_path)}).provider()
    assert provider()["access_key_id"] == "one"
    (tmp_path / ".aws" / "credentials").unlink()
    write_credentials(tmp_path, "default", {"access_key_id": "two", "secret_access_key": "s"})
    given = provider()
    assert given["access_key_id"] == "two"
    assert given["expires_at"] > datetime.datetime.now(datetime.UTC)


def test_no_credentials_at_all_are_told(bucket_url, bucket_options, fault_proxy):
    fault_proxy.inject(Fault(status=404, code=""), path="/latest/")
    options = without_keys(bucket_options)
    options["store_options"] = {"metadata_endpoint": fault_proxy.endpoint}
    with pytest.raises(errors.StorageDeniedError, match="no credentials were found; set AWS_"):
        open_storage(bucket_url, options).read("a")


def test_credentials_may_come_from_a_function(bucket_url, bucket_options):
    asked = []

    def provide():
        asked.append(True)
        return {
            "access_key_id": bucket_options["access_key_id"],
            "secret_access_key": bucket_options["secret_access_key"],
            "expires_at": None,
        }

    options = {**without_keys(bucket_options), "credential_provider": provide}
    open_storage(bucket_url, options).write("a", b"1")
    assert asked


def test_a_store_without_conditional_writes_is_written_without_conditions(
    bucket_url, proxied_options, fault_proxy
):
    refused = Fault(status=501, code="NotImplemented")
    fault_proxy.inject(refused, when=lambda seen: "if-none-match" in seen.headers)
    with pytest.raises(errors.StorageError, match=r"status 501: .* set conditional_writes=False"):
        open_storage(bucket_url, proxied_options).write("a", b"1", overwrite=False)
    storage = open_storage(bucket_url, {**proxied_options, "conditional_writes": False})
    storage.write("a", b"1", overwrite=False)
    with pytest.raises(errors.StorageConflictError, match="already exists"):
        storage.write("a", b"2", overwrite=False)
    assert storage.read("a") == b"1"


def test_conditions_that_the_options_disable_are_told(bucket_url, bucket_options):
    options = {**bucket_options, "store_options": {"conditional_put": "disabled"}}
    with pytest.raises(errors.StorageError, match="when conditional put is disabled"):
        open_storage(bucket_url, options).write("a", b"1", overwrite=False)
    storage = open_storage(bucket_url, {**options, "conditional_writes": False})
    storage.write("a", b"1", overwrite=False)
    assert storage.read("a") == b"1"


def test_encryption_is_asked_for(bucket_url, proxied_options, fault_proxy, s3_server):
    storage = open_storage(bucket_url, {**proxied_options, "sse": "aws:kms", "sse_kms_key_id": "k"})
    with contextlib.suppress(errors.StorageError):  # Not every server can.
        storage.write("a", b"1")
    headers = fault_proxy.seen[0].headers
    assert headers["x-amz-server-side-encryption"] == "aws:kms"
    assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "k"
    open_storage(bucket_url, {**proxied_options, "sse": "AES256"}).write("b", b"1")
    if s3_server.kind == "moto":
        head = s3_server.client().head_object(Bucket=bucket_url[5:], Key="b")
        assert head["ServerSideEncryption"] == "AES256"


@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
def test_what_is_sent_says_what_it_is(bucket_url, proxied_options, fault_proxy):
    storage = open_storage(bucket_url, proxied_options)
    storage.write("a", b"hello", overwrite=False)
    (put,) = [seen for seen in fault_proxy.seen if seen.method == "PUT"]
    assert put.headers["x-amz-checksum-sha256"] == "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="
    assert put.headers["if-none-match"] == "*"
    assert put.target == f"/{bucket_url[5:]}/a"


@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
def test_the_bucket_may_be_part_of_the_host(bucket_url, proxied_options, fault_proxy):
    fault_proxy.inject(Fault(status=404, code="NoSuchKey"))
    options = {**proxied_options, "virtual_hosted_style": True}
    with pytest.raises(errors.StorageMissingError):
        open_storage(bucket_url, options).read("a/b")
    assert fault_proxy.seen[0].target == "/a/b"
