"""The curious agent tries what is new, and leaves alone what it must."""

from rows import each
from webtraj.environments import actions as a
from webtraj.exploring.curious import CuriousAgent

SITE = "http://shop.example"


class Site:
    """Pages of links, by path: what a browser would show, without one."""

    def __init__(self, pages, start="/"):
        self.pages, self.path, self.done = pages, start, []

    @property
    def observation(self):
        lines = [
            f"[{number}] {element}" for number, element in enumerate(self.pages.get(self.path, ()))
        ]
        return {
            "url": self.path if "://" in self.path else SITE + self.path,
            "axtree": "\n".join(lines),
            "http_status": 200 if self.path in self.pages else 404,
        }

    def do(self, action):
        match action:
            case a.Click(ref=ref):
                element = self.pages[self.path][int(ref)]
                self.done.append((self.path, element))
                if element.startswith("link"):
                    self.path = element.split('"')[1]
            case a.Fill(ref=ref, value=value):
                self.done.append((self.path, self.pages[self.path][int(ref)], value))
            case a.SelectOption(ref=ref, options=options):
                self.done.append((self.path, self.pages[self.path][int(ref)], options[0]))
            case a.Goto(url=url):
                self.path = url.removeprefix(SITE) or "/"
            case _:
                raise AssertionError(f"unexpected: {action}")


async def explored(site, *, seed=0, limit=60, **options):
    actor = CuriousAgent(seed, **options).begin_episode(None)
    for _ in range(limit):
        action = (await actor.act(site.observation)).action
        if isinstance(action, a.Answer):
            return site.done
        site.do(action)
    raise AssertionError("it did not come to an end")


PAGES = {
    "/": ['link "/a"', 'link "/b"', 'heading "Hi"'],
    "/a": ['link "/"', 'button "Add to cart"', 'tab "Reviews"'],
    "/b": ['link "/"', 'link "/c"'],
    "/c": ['link "/a"', 'checkbox "Gift"'],
}


@each("seed", range(5))
async def test_everything_is_tried_once_on_each_page_and_then_it_is_done(seed):
    done = await explored(Site(PAGES), seed=seed)
    wanted = [
        (path, element)
        for path, elements in PAGES.items()
        for element in elements
        if not element.startswith("heading")
    ]
    assert sorted(done) == sorted(wanted)


async def test_the_same_seed_explores_the_same_way_and_others_do_not():
    runs = [await explored(Site(PAGES), seed=seed) for seed in (1, 1, 2, 3, 4)]
    assert runs[0] == runs[1]
    assert any(run != runs[0] for run in runs[2:])


@each(
    "name",
    ["Delete account", "Log out", "Pay now", "Place order", "Send message", "Remove", "Sign up"],
)
async def test_what_cannot_be_undone_is_left_alone(name):
    pages = {"/": [f'button "{name}"', f'link "{name}"', 'button "Sort"']}
    assert await explored(Site(pages)) == [("/", 'button "Sort"')]


async def test_no_secret_is_made_up_and_what_is_disabled_is_not_tried():
    pages = {"/": ['textbox "Password"', 'textbox "Card number"', 'button "Go" disabled']}
    assert await explored(Site(pages)) == []


async def test_a_form_is_filled_in_from_the_top_and_then_sent():
    form = [
        'textbox "E-mail"',
        'combobox "Size" value="S"',
        'option "S" selected',
        'option "M"',
        'spinbutton "Quantity"',
        'button "Apply"',
    ]
    done = await explored(Site({"/": ['heading "Form"', *form]}))
    assert [element for _, element, *_ in done[-4:]] == [form[0], form[1], form[4], form[5]]
    assert done[-4][2].endswith("@example.com")
    assert done[-3][2] == "M"
    assert done[-2][2].isdecimal()


async def test_who_is_led_off_the_site_goes_back():
    pages = {"/": ['link "http://evil.example/"', 'button "Sort"']}
    pages["http://evil.example/"] = ['button "Win a prize"']
    done = await explored(Site(pages))
    assert all(path == "/" for path, _ in done)
    assert ("/", 'button "Sort"') in done


async def test_error_pages_and_empty_sites_come_to_an_end():
    assert await explored(Site({"/": ['link "/gone"']})) == [("/", 'link "/gone"')]
    assert await explored(Site({"/": []})) == []
