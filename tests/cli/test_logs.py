"""What `-v` prints holds no secret, whatever libraries log."""

import logging

import pytest

from webtraj.cli import app, logs
from webtraj.settings import credentials

KEY = "mkey-8fKz02mQx7Lw9"
LOGGED = {
    "a header that a server echoes": ("%s", [(b"x-received", b"Bearer " + KEY.encode())]),
    "a cookie": ("%r", [(b"Set-Cookie", b"sid=abcdef0123; Path=/"), (b"Server", b"x")]),
    "a key in another spelling": ("got %s", KEY.encode().hex()),
    "a password in a URL": ("GET http://me:hunter22@host/?access_token=abcdef0123",),
    "an exception": ("failed",),
    "a message that cannot be formatted": ("%d", KEY),
}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setattr(credentials, "KEYS", {KEY})


def test_no_logged_message_holds_a_secret(capsys):
    logger = logging.Logger("httpcore")
    logger.addHandler(logs._Handler())
    for message, *arguments in LOGGED.values():
        try:
            raise ValueError(f"api_key={KEY}")
        except ValueError:
            logger.debug(message, *arguments, exc_info=message == "failed")
    logger.debug("a colour \x1b[31m")
    said = capsys.readouterr().err
    for secret in (KEY, KEY.encode().hex(), "abcdef0123", "hunter22", "\x1b"):
        assert secret not in said
    assert "x-received" in said
    assert "(b'Server', b'x')" in said


@pytest.mark.parametrize("debug", ["0", "1"])
def test_an_error_that_nobody_foresaw_is_one_line_without_secrets(capsys, monkeypatch, debug):
    def fail(**options):
        raise KeyError(f"Bearer {KEY}")

    monkeypatch.setenv(app.DEBUG_VARIABLE, debug)
    monkeypatch.setattr(app, "make_app", lambda: fail)
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert KEY not in said
    assert "bug in webtraj" in said
    assert ("Traceback" in said) is (debug == "1")
    assert debug == "1" or said.count("\n") == 1
