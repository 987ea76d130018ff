"""Downloads: files come with the step in which they arrive, under plain names, up to a size."""

import asyncio

import pytest

from rows import each
from webtraj.environments import actions as a
from webtraj.environments.browser.observation import Observe, refs_in
from webtraj.environments.browser.traffic import safe_name

CHANNELS = ("axtree", "downloads", "blocked", "last_action")
BYTES = bytes(range(256)) * 4
OFFER = """
<a id=a href="javascript:offer()">Report</a>
<script>
const bytes = Uint8Array.from({length: 1024}, (_, i) => i % 256);
function offer() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes]));
  link.download = NAME;
  link.click();
}
</script>
"""


def offering(name):
    return OFFER.replace("NAME", repr(name))


async def downloaded(environment):
    """Clicks the link, and steps on until a download is told of."""
    timestep = await environment.reset()
    assert len(timestep.observation["downloads"]["names"]) == 0
    timestep = await environment.step(a.Click(refs_in(timestep.observation["axtree"])[0].ref))
    async with asyncio.timeout(60):
        while not len(timestep.observation["downloads"]["names"]):
            timestep = await environment.step(a.Wait(0.01))
    spec = environment.observation_spec()["downloads"]
    for key, value in timestep.observation["downloads"].items():
        spec[key].validate(value)
    return timestep.observation["downloads"]


@pytest.mark.asyncio(loop_scope="module")
class TestDownloads:
    @pytest.mark.browser
    async def test_a_file_comes_with_its_bytes_name_type_size_and_url(self, open_page):
        environment = open_page(offering("report.pdf"), observe=CHANNELS)
        told = await downloaded(environment)
        assert list(told["names"]) == ["report.pdf"]
        assert list(told["mime_types"]) == ["application/pdf"]
        assert list(told["sizes"]) == [1024]
        assert list(told["contents"]) == [BYTES]
        assert list(told["errors"]) == [""]
        assert told["urls"][0].startswith("blob:")

    async def test_a_file_too_large_is_told_of_and_not_kept(self, open_page):
        observe = Observe(CHANNELS, download_limit=1023)
        told = await downloaded(open_page(offering("report.pdf"), observe=observe))
        assert list(told["sizes"]) == [1024]
        assert list(told["contents"]) == [b""]
        assert list(told["errors"]) == ["larger than 1023 bytes"]

    async def test_a_name_that_leads_elsewhere_does_not(self, open_page):
        told = await downloaded(open_page(offering("../../up/.bashrc"), observe=CHANNELS))
        assert "/" not in told["names"][0]
        assert not told["names"][0].startswith(".")

    async def test_without_the_channel_downloads_are_blocked(self, open_page):
        environment = open_page(offering("report.pdf"), observe=("axtree", "blocked"))
        timestep = await environment.reset()
        timestep = await environment.step(a.Click(refs_in(timestep.observation["axtree"])[0].ref))
        async with asyncio.timeout(60):
            while not len(timestep.observation["blocked"]):
                timestep = await environment.step(a.Wait(0.01))
        assert "downloads are not allowed" in timestep.observation["blocked"][0]


@each(
    ("given_name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\system.ini", "system.ini"),
        (".ssh/.bashrc", "bashrc"),
        ("..", "download"),
        ("", "download"),
        ("a\u202efdp.exe", "a_fdp.exe"),
        ("x" * 500 + ".tar", "x" * 116 + ".tar"),
    ],
)
def test_names_are_made_safe(given_name, safe):
    assert safe_name(given_name) == safe
