"""Which origins a policy allows."""

import pytest

from rows import each
from webtraj import errors
from webtraj.environments.browser import network_policy as network_policy_lib
from webtraj.environments.browser.network_policy import PUBLIC_WEB, OriginPolicy

ALLOWED = [
    ("example.com", "https://example.com/path?q#f"),
    ("example.com", "http://example.com"),
    ("example.com", "https://EXAMPLE.com."),
    ("example.com", "wss://example.com/socket"),
    ("*.example.com", "https://a.b.example.com/"),
    ("https://example.com", "https://example.com:443/"),
    ("http://localhost:8000", "http://localhost:8000/x"),
    ("example.com:*", "http://example.com:8123/"),
    ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
    ("[::1]:8000", "http://[::1]:8000/"),
    ("*", "https://anything.test:8443/"),
]
DENIED = [
    ("example.com", "https://example.com.evil.test/"),
    ("example.com", "https://evilexample.com/"),
    ("example.com", "https://sub.example.com/"),
    ("example.com", "https://example.com@evil.test/"),
    ("example.com", "https://evil.test/example.com"),
    ("example.com", "https://evil.test#example.com"),
    ("example.com", "https://example.com:8443/"),
    ("*.example.com", "https://example.com/"),
    ("https://example.com", "http://example.com/"),
    ("http://localhost:8000", "http://localhost:8001/"),
    ("*", "file:///etc/passwd"),
    ("*", "chrome://version"),
    ("*", "data:text/html,hello"),
    ("*", "javascript:alert(1)"),
    ("*", "view-source:https://example.com"),
    ("*", "https://[bad"),
    ("http://a.test", "http://a.test../"),
    ("http://127.0.0.1", "http://127.0.0.1../"),
    ("*", ""),
]


@each(("pattern", "url"), ALLOWED)
def test_a_pattern_allows_what_it_names(pattern: str, url: str) -> None:
    assert OriginPolicy(allow=(pattern,)).judge_url(url).allowed


@each(("pattern", "url"), DENIED)
def test_a_pattern_allows_nothing_else(pattern: str, url: str) -> None:
    verdict = OriginPolicy(allow=(pattern,)).judge_url(url)
    assert not verdict.allowed
    assert verdict.reason


def test_deny_goes_before_allow() -> None:
    policy = OriginPolicy(allow=("*",), deny=("ads.test", "*.ads.test"))
    assert policy.judge_url("https://shop.test").allowed
    assert not policy.judge_url("https://ads.test").allowed
    assert not policy.judge_url("https://x.ads.test").allowed


SPECIAL = [
    "127.0.0.1", "10.0.0.7", "172.16.3.4", "192.168.1.1", "169.254.169.254", "0.0.0.0",
    "100.64.0.1", "224.0.0.1", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%lo", "fc00::1",
    "fec0::5", "ff02::1", "168.63.129.16", "100.100.100.200",
    # IPv4 within IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP.
    "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::127.0.0.1", "::7f00:1", "::ffff:0:127.0.0.1",
    "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:5601:5601",
    "2606:4700::5efe:10.0.0.1",
]  # fmt: skip
PUBLIC = [
    "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822",
    "2002:5db8:d822::1", "::ffff:93.184.216.34",
]  # fmt: skip


@each("address", SPECIAL)
def test_special_addresses_are_denied_unless_their_host_and_port_are_named(address: str) -> None:
    def allowed(*patterns: str) -> bool:
        return OriginPolicy(allow=patterns).judge("http", "inside.test", 80, address).allowed

    assert not allowed("*")
    assert not allowed("*.test")
    assert not allowed("*", "inside.test:8000", "https://inside.test")
    assert allowed("inside.test")


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert PUBLIC_WEB.judge("https", "example.com", 443, address).allowed


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/"])
def test_a_host_that_is_a_special_address_is_denied_before_it_is_dialled(url: str) -> None:
    assert not PUBLIC_WEB.judge_url(url).allowed


def test_an_address_of_this_machine_is_not_public(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PUBLIC_WEB.judge("http", "own.test", 80, "93.184.216.34").allowed
    monkeypatch.setattr(network_policy_lib, "_is_own", lambda ip: str(ip) == "93.184.216.34")
    assert not PUBLIC_WEB.judge("http", "own.test", 80, "93.184.216.34").allowed
    assert not PUBLIC_WEB.judge("http", "own.test", 80, "64:ff9b::5db8:d822").allowed


@each("scheme", ["http", "https", "ws", "wss"])
@each("port", [80, 443, 8080])
def test_deny_without_a_port_means_every_port_and_scheme(scheme: str, port: int) -> None:
    policy = OriginPolicy(allow=("*", "ads.test:*"), deny=("ads.test", "*.ads.test"))
    assert not policy.judge(scheme, "ads.test", port).allowed
    assert not policy.judge(scheme, "x.ads.test", port).allowed
    assert policy.judge(scheme, "shop.test", port).allowed


def test_deny_may_be_of_one_port_or_one_scheme() -> None:
    policy = OriginPolicy(allow=("*",), deny=("a.test:8080", "https://b.test"))
    assert not policy.judge_url("http://a.test:8080/").allowed
    assert policy.judge_url("http://a.test/").allowed
    assert not policy.judge_url("https://b.test:8443/").allowed
    assert policy.judge_url("http://b.test/").allowed


@pytest.mark.parametrize("address", ["93.184.216.34", "64:ff9b::5db8:d822"])
def test_deny_holds_for_the_address_behind_a_name(address: str) -> None:
    policy = OriginPolicy(allow=("*",), deny=("93.184.216.34",))
    assert not policy.judge("https", "innocent.test", 443, address).allowed


@each(
    "pattern", ["", "exa mple.com", "https://", "ftp://x.test", "x.test:99999", "a/b", "*x.test", 3]
)
def test_a_pattern_off_the_grammar_is_an_error_that_names_it(pattern: object) -> None:
    with pytest.raises(errors.InvalidInputError, match="is not an origin pattern"):
        OriginPolicy(allow=(pattern,))
