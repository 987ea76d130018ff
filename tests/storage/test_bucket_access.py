"""Who may use a bucket, from where credentials come, and that they are never shown."""

import logging
import traceback

import pytest

from bucket_servers import QUICK
from fault_proxy import Fault
from rows import each
from webtraj import errors
from webtraj.store.bucket import BucketStorage
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


@each("call", CALLS.values())
def test_a_missing_bucket_is_told(s3_server, call):
    storage = open_storage("s3://no-such-bucket/prefix", s3_server.options(**QUICK))
    with pytest.raises(errors.StorageMissingError, match=r"no such bucket\. Create it"):
        call(storage)


@each("call", CALLS.values())
@pytest.mark.parametrize("wrong", ["access_key_id", "secret_access_key"])
def test_wrong_credentials_are_told_at_once(bucket_url, proxied_options, fault_proxy, call, wrong):
    storage = open_storage(bucket_url, {**proxied_options, wrong: "AKIAWRONGWRONGWRONG"})
    before = len(fault_proxy.seen)
    with pytest.raises(errors.StorageDeniedError, match="Check the credentials"):
        call(storage)
    assert len(fault_proxy.seen) == before + 1


@pytest.mark.gate
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


@each("url", ["s3://key:hush@bucket/a", "s3://hush@bucket/a", "s3://bucket/a?sig=hush",
     "s3://b/a#hush", "gs://key:hush@bucket", "abfss://container:hush@account/a",
     "ftp://key:hush@bucket"])  # fmt: skip
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
        BucketStorage(
            "s3://bucket",
            server_side_encryption="rot13",
            access_key_id="a",
            secret_access_key="hush",
        )
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


@pytest.mark.parametrize("options", [{}, {"skip_signature": False}])
def test_a_file_that_holds_no_profiles_is_not_quoted(tmp_path, options):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("aws_secret_access_key = hush\n")
    with pytest.raises(errors.InvalidInputError, match="Cannot use the AWS profile") as caught:
        BucketStorage("s3://bucket", **options)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_no_credentials_at_all_are_told(bucket_url, bucket_options, fault_proxy):
    fault_proxy.inject(Fault(status=404, code=""), path="/latest/")
    options = without_keys(bucket_options)
    options["metadata_endpoint"] = fault_proxy.endpoint
    with pytest.raises(errors.StorageDeniedError, match="no credentials were found; set AWS_"):
        open_storage(bucket_url, options).read("a")


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
