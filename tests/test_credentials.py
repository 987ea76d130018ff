"""What a secret looks like: names, keys, texts, and what hides them."""

import pytest

from rows import each
from webtraj import errors
from webtraj.settings.credentials import (
    HIDDEN,
    Secrets,
    conceal,
    conceal_data,
    is_secret_name,
    looks_like_key,
)

SECRET_NAMES = [
    "password",
    "user_password",
    "confirmPassword",
    "Authorization",
    "Proxy-Authorization",
    "Set-Cookie",
    "api_key",
    "apiKey",
    "x-api-key",
    "X-Goog-Api-Key",
    "accessToken",
    "access_token",
    "refresh_token",
    "X-Amz-Security-Token",
    "client_secret",
    "secret_access_key",
    "aws_session_token",
    "privateKey",
    "passphrase",
    "Ocp-Apim-Subscription-Key",
]
OTHER_NAMES = [
    "token",
    "tokens",
    "max_tokens",
    "prompt_token_ids",
    "key",
    "keys",
    "password_field",
    "api_key_variable",
    "api_key_env_var",
    "secret_santa",
    "author",
    "cookies_shown",
    "design",
]


@each("name", SECRET_NAMES)
def test_a_name_tells_that_its_value_is_secret(name: str) -> None:
    assert is_secret_name(name)


@each("name", OTHER_NAMES)
def test_other_names_do_not(name: str) -> None:
    assert not is_secret_name(name)


DUMMIES = [
    "", "x", "test", "none", "EMPTY", "click", "token-abc123", "sk-no-key-required", "dummy",
    "not-needed", "YOUR_API_KEY", "xxxxxxxxxxxxxxxx", "sk-xxxxxxxxxxxxxxxxxxxx", "0" * 32,
    "this-is-no-key", "lm-studio", "ollama", "changeme", "double_click_left",
]  # fmt: skip


@each("key", DUMMIES)
def test_a_dummy_does_not(key: str) -> None:
    assert not looks_like_key(key)


TEXTS = {
    '{"api_key": "S3"}': '{"api_key": "#"}',
    '{"accessToken":"S3"}': '{"accessToken":"#"}',
    r"{\"apiKey\": \"S3\"}": r"{\"apiKey\": \"#\"}",
    r'"{\\\"apiKey\\\": \\\"S3\\\"}"': r'"{\\\"apiKey\\\": \\\"#\\\"}"',
    "{'password': 'S3'}": "{'password': '#'}",
    "see /x?access_token=S3&n=1": "see /x?access_token=#&n=1",
    r"see /x?n=1\u0026access_token=S3": r"see /x?n=1\u0026access_token=#",
    "https%3A%2F%2Fh%2Fx%3Faccess_token%3DS3": "https%3A%2F%2Fh%2Fx%3Faccess_token%3D#",
    "X-Amz-Security-Token=S3": "X-Amz-Security-Token=#",
    "token=9f86d081884c7d65": "token=#",
    '{"token": "9f86d081884c7d65"}': '{"token": "#"}',
    "Authorization: AWS4-HMAC-SHA256 Credential=AKIA/x, Signature=ab": "Authorization: #",
    "authorization: bearer S3": "authorization: #",
    "Cookie: sid=S3; theme=dark": "Cookie: #",
    "x-api-key: t0psecret-and-more": "x-api-key: #",
    "https://me:S3@host/": "https://#@host/",
    r"https:\/\/me:S3@host\/": r"https:\/\/#@host\/",
    "https://9f86d081884c7d65@host/": "https://#@host/",
    "http://h/v1?api-key=S3": "http://h/v1?api-key=#",
    "--api-key 9f86d081884c7d65 -v": "--api-key # -v",
    "https%253A%252F%252Fh%252Fx%253Faccess_token%253DS3": (
        "https%253A%252F%252Fh%252Fx%253Faccess_token%253D#"
    ),
    "&quot;apiKey&quot;: &quot;S3&quot;": "&quot;apiKey&quot;: &quot;#&quot;",
    "%7B%22apiKey%22%3A%22S3%22%7D": "%7B%22apiKey%22%3A%22#%22%7D",
    "https://h/maps?key=9f86d081884c7d65&q=x": "https://h/maps?key=#&q=x",
    "AccountKey=9f86d081884c7d65==;Endpoint=x": "AccountKey=#;Endpoint=x",
    "'apiKey' => '9f86d081884c7d65'": "'apiKey' => '#'",
    "<apiKey>9f86d081884c7d65</apiKey>": "<apiKey>#</apiKey>",
    "it is sk-proj-8fKz02mQx7LwPq3rT9vB.": "it is #.",
}


@each("text", TEXTS)
def test_a_text_is_told_without_secrets(text: str) -> None:
    assert conceal(text) == TEXTS[text].replace("#", HIDDEN)


@each(
    "text",
    [
        "Password: at least 8 characters",
        'text "Cookie: we use cookies"',
        '{"token": " click", "logprob": -0.1}',
        '{"password": "<secret:password>", "api_key": "", "token": null}',
        "key=episodes/20261120T130405-9f86d081.json",
        "authorization is needed; the bearer of it: see https://shop.example/@anna:4",
        "Enter the password and click Sign in",
        "Settings > Password > Change it",
        "the option --password must be given",
        "<label>Password</label><input name=password>",
        '<a accesskey="s" href="/?key=shoes">',
        "max_tokens=4096",
    ],
)
def test_what_is_no_secret_is_told(text: str) -> None:
    assert conceal(text) == text


def test_data_is_told_without_secrets() -> None:
    data = {
        "secrets": {"pin": "tea"},
        "http_credentials": {"username": "anna", "password": "tea"},
        "urls": ["http://h/?api_key=tea"],
        "max_steps": 20,
    }
    assert "tea" not in repr(conceal_data(data))
    assert conceal_data(data)["max_steps"] == 20
    assert "tea" not in repr(Secrets(pin="tea"))


@each("piece", ['token:"', "token=a", "token:a", "a=", "password='", "x:y@"])
def test_hostile_text_takes_no_longer_than_other_text(piece: str) -> None:
    # What is quadratic would take hours, and the timeout of all tests would end it.
    conceal(piece * (500_000 // len(piece)))


def test_a_preset_that_cannot_be_made_does_not_tell_secrets() -> None:
    import webtraj

    with pytest.raises(errors.InvalidInputError, match="secrets=") as caught:
        webtraj.make(
            "miniwob/login-user",
            secrets={"pin": "tea-for-two"},
            http_credentials={"username": "anna", "password": "tea-for-two"},
            url="http://h/?api-key=tea-for-two",
        )
    assert "tea-for-two" not in str(caught.value)
