"""The threads of Northfield's forum: who wrote what, when. Only the standard library is used."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

__all__ = [
    "ADMIN",
    "CATEGORIES",
    "MODERATORS",
    "SPAMMER",
    "USER",
    "Poll",
    "Reply",
    "Thread",
    "threads",
]

USER = 0
"""Who sits in the browser: an ordinary member. Members are numbers of `people.people`."""
MODERATORS = (1, 3)
ADMIN = 2
SPAMMER = 39
"""Whose account posts advertisements."""
_LAST = datetime(2026, 3, 1, 20, 0, tzinfo=UTC)
_NORMAL = range(3, 39)

CATEGORIES = (
    ("Announcements", "", "News from the administrators", "#b3392f"),
    ("IT Help", "", "Questions about computers, programs and networks", "#2f6db3"),
    ("Hardware", "IT Help", "Laptops, screens, printers and everything with a plug", "#2f6db3"),
    ("Software", "IT Help", "Programs that do not do what they should", "#2f6db3"),
    ("Network", "IT Help", "Wi-Fi, cables and remote access", "#2f6db3"),
    ("Office Life", "", "Everything that happens between the desks", "#2f8f5b"),
    ("Canteen", "Office Life", "Food, coffee and the dishwasher", "#2f8f5b"),
    ("Commuting", "Office Life", "Car pools, bikes and trains", "#2f8f5b"),
    ("Lost and Found", "Office Life", "Things without people, people without things", "#2f8f5b"),
    ("Marketplace", "", "Private advertisements of colleagues", "#b37a2f"),
    ("For Sale", "Marketplace", "What you want to get rid of", "#b37a2f"),
    ("Wanted", "Marketplace", "What you are looking for", "#b37a2f"),
    ("Ideas", "", "What Northfield could do better", "#7a3fb3"),
    ("Projects", "", "Notes and questions about current projects", "#3f8fa6"),
    ("Clubs", "", "After work", "#a63f7d"),
    ("Book Club", "Clubs", "One book each month", "#a63f7d"),
    ("Running", "Clubs", "Slow and fast, all together", "#a63f7d"),
    ("Cooking", "Clubs", "Recipes that worked", "#a63f7d"),
    ("Board Games", "Clubs", "Games nights and rules questions", "#a63f7d"),
    ("Gardening", "Clubs", "The roof garden and your balcony", "#a63f7d"),
)
"""Title, title of the parent, description and colour."""


@dataclasses.dataclass(slots=True)
class Reply:
    """A comment."""

    author: int
    date: datetime
    text: str
    likes: list[int] = dataclasses.field(default_factory=list)
    removed: bool = False
    spam: bool = False


@dataclasses.dataclass(slots=True)
class Poll:
    """A poll in the first comment of a thread."""

    question: str
    options: list[str]
    votes: dict[int, int]
    """The number of the option, by member."""
    closed: bool = False


@dataclasses.dataclass(slots=True)
class Thread:
    """A thread; its first comment is the opening one."""

    title: str
    category: str
    comments: list[Reply]
    details: dict[str, str]
    """What the opening comment tells: prices, dates, places."""
    poll: Poll | None = None
    closed: bool = False
    pinned: bool = False
    globally_pinned: bool = False
    removed: bool = False
    members: list[int] = dataclasses.field(default_factory=list)
    """Who takes part, if it is private."""

    @property
    def author(self) -> int:
        """Who started it."""
        return self.comments[0].author


_ROOMS = [
    "Oak",
    "Maple",
    "Birch",
    "Cedar",
    "Willow",
    "Linden",
    "Hazel",
    "Rowan",
    "Alder",
    "Juniper",
]
_TOWNS = [
    "Ashford",
    "Bramley",
    "Corwick",
    "Dunmere",
    "Eastleigh",
    "Farrow",
    "Glenside",
    "Harwick",
    "Inverlea",
    "Kelby",
    "Langmoor",
    "Millbrook",
    "Norwood",
    "Oakham",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
_FLOORS = ("ground floor", "first floor", "second floor", "third floor", "fourth floor")
_DEVICES = (
    "Docking station",
    "Laptop battery",
    "Desk monitor",
    "Label printer",
    "Headset",
    "Barcode scanner",
    "Webcam",
    "Projector",
    "Keyboard",
    "Conference phone",
    "Badge reader",
    "Warehouse tablet",
    "Document scanner",
)
_DEFECTS = (
    "keeps disconnecting",
    "does not wake up after lunch",
    "makes a strange noise",
    "flickers",
    "is not recognised",
    "gets very hot",
    "shows the wrong time",
    "lost its settings",
)
_PROGRAMS = (
    "Shared calendar",
    "Expenses form",
    "Time sheet",
    "Photo archive",
    "Address book",
    "Order export",
    "Screen sharing",
    "Invoice template",
    "Stock report",
    "Mail signature",
    "Travel planner",
)
_BUGS = (
    "freezes on opening",
    "loses changes",
    "asks for the password again and again",
    "prints blank pages",
    "disappeared after the update",
    "shows yesterday's numbers",
    "has become very slow",
    "mixes up the columns",
)
_LINKS = (
    "Wi-Fi in the {room} room drops every hour",
    "No network socket works in the {room} room",
    "Guest Wi-Fi voucher for the {room} room",
    "Video calls stutter in the {room} room",
)
_TRIED = (
    "restarted it twice",
    "changed the cable",
    "asked the colleague next to me",
    "installed all updates",
    "read the manual from start to end",
    "tried it with another account",
)
_FIXES = (
    "turning it off for ten minutes",
    "a different cable",
    "resetting it to the factory settings",
    "signing out and in again",
    "the newest driver from the software centre",
    "moving it to another desk",
    "deleting the old profile",
)
_MEALS = (
    "Lentil curry",
    "Potato pancakes",
    "Mushroom risotto",
    "Fish pie",
    "Bean stew",
    "Spinach dumplings",
    "Tomato tart",
    "Leek soup",
    "Aubergine bake",
    "Plum crumble",
    "Carrot cake",
    "Rye bread",
    "Onion focaccia",
    "Pumpkin gnocchi",
)
_OBJECTS = (
    "grey umbrella",
    "blue scarf",
    "silver key ring",
    "magnifying glass",
    "black water bottle",
    "red notebook",
    "wireless earbud",
    "green lunch box",
    "brown glove",
    "bike lock",
    "striped cap",
    "calculator",
    "leather wallet",
    "travel mug",
    "phone charger",
    "knitted hat",
    "chess piece",
    "fountain pen",
)
_PLACES = (
    "the car park",
    "the canteen",
    "the bike cellar",
    "lift B",
    "the print room",
    "the roof garden",
    "the post room",
    "the main entrance",
)
_ITEMS = (
    ("mountain bike", 180),
    ("oak bookcase", 90),
    ("espresso machine", 120),
    ("acoustic guitar", 140),
    ("camping tent", 75),
    ("desk lamp", 20),
    ("snow boots", 35),
    ("bread maker", 40),
    ("child seat", 60),
    ("record player", 95),
    ("kitchen table", 110),
    ("sewing machine", 85),
    ("road bike", 320),
    ("bathroom scale", 15),
    ("electric drill", 45),
    ("hammock", 25),
    ("digital piano", 380),
    ("ski set", 150),
    ("garden bench", 70),
    ("raclette grill", 30),
    ("sleeping bag", 28),
    ("telescope", 160),
    ("folding bike", 240),
    ("office chair", 65),
    ("aquarium", 55),
    ("picture frames", 18),
    ("cargo trailer", 130),
    ("air purifier", 80),
    ("inflatable kayak", 210),
    ("ice cream maker", 33),
)
_SEARCHED = (
    "moving boxes",
    "cat sitter for Easter",
    "piano teacher",
    "second-hand pram",
    "garage near the office",
    "roof box",
    "used printer",
    "rowing partner",
    "language tandem for Spanish",
    "cheap washing machine",
    "violin for a child",
    "raised bed",
    "room for a trainee",
    "old jam jars",
)
_CONDITIONS = ("like new", "good", "used, but works", "with a few scratches")
_IDEAS = (
    (
        "Quiet hour before lunch",
        "When should it be?",
        ("10:00 to 11:00", "11:00 to 12:00", "Never"),
    ),
    ("Repair cafe once a month", "Which day?", ("Monday", "Wednesday", "Friday", "Saturday")),
    ("Standing desks for everyone", "How many do we need?", ("Ten", "Thirty", "One each")),
    ("Plants in the meeting rooms", "Which plants?", ("Ferns", "Palms", "Cacti", "None")),
    ("Shared lunch on Thursdays", "Who cooks?", ("A team each week", "A caterer", "Everybody")),
    ("Summer party at the lake", "Which month?", ("June", "July", "August", "September")),
    ("Book shelf in the lobby", "Where exactly?", ("By the lift", "By the sofa", "By the door")),
    ("New colours for the corridor", "Which colour?", ("Green", "Yellow", "Light blue", "White")),
    ("Language courses at noon", "Which language?", ("Spanish", "French", "Polish", "Turkish")),
    ("A name for the new building", "Which name?", ("Lighthouse", "Harbour", "Granary", "Annex")),
    ("Better coffee beans", "Which roast?", ("Light", "Medium", "Dark")),
    ("Photo contest in spring", "Which subject?", ("Harbour", "Night", "Colleagues", "Birds")),
    ("Meeting-free Wednesdays", "Shall we try it?", ("Yes", "No", "Only in summer")),
    ("A second microwave", "Which floor?", ("First", "Second", "Third")),
    ("Lockers for cyclists", "What size?", ("Small", "Medium", "Large")),
    ("Charity run in May", "Which distance?", ("3 km", "5 km", "10 km", "Half marathon")),
    ("Table football in the basement", "Who pays?", ("The company", "All players", "Nobody")),
    ("Fruit basket on every floor", "How often?", ("Daily", "Twice a week", "Weekly")),
    ("Later opening of the front desk", "Until when?", ("18:00", "19:00", "20:00")),
    ("Choir for the winter party", "Which evening?", ("Monday", "Tuesday", "Thursday")),
)
_PROJECTS = [
    "Albatross",
    "Bluebell",
    "Compass",
    "Driftwood",
    "Ember",
    "Foxglove",
    "Granite",
    "Heron",
]
_STAGES = ("kick-off notes", "status in February", "open questions", "lessons learned")
_BOOKS = (
    "The Salt Road",
    "A Map of Small Rivers",
    "Winter Ferry",
    "The Clockmaker's Orchard",
    "Nine Bridges",
    "The Quiet Cartographer",
    "Letters from the Lighthouse",
    "An Hour of Rain",
    "The Glass Harvest",
    "Paper Lanterns",
)
_MONTHS = (
    "May 2025",
    "June 2025",
    "July 2025",
    "August 2025",
    "September 2025",
    "October 2025",
    "November 2025",
    "December 2025",
    "January 2026",
    "February 2026",
)
_ROUTES = (
    "harbour loop",
    "old railway path",
    "castle hill",
    "lake and back",
    "forest trail",
    "river towers",
    "city walls",
    "vineyard climb",
    "canal mile",
    "park intervals",
)
_GAMES = (
    "Harvest of Fools",
    "Copper Valley",
    "Seven Caravans",
    "Moon Ferry",
    "The Last Lamplighter",
    "Orchid Traders",
    "Fog over Brindle",
    "Kings of Tin",
    "Paper Dragons",
    "Salt and Silk",
)
_GARDEN = (
    "Tomatoes on the roof",
    "Bees and lavender",
    "Compost bin rules",
    "Watering plan for the summer",
    "Herb spiral",
    "Snails in the lettuce",
    "Seed swap",
    "Roses for the north side",
    "Balcony beans",
    "New rain barrel",
)
_SYSTEMS = (
    "mail server",
    "file storage",
    "phone system",
    "door locks",
    "payroll",
    "intranet",
    "online shop",
    "backup",
    "printers",
    "warehouse scanners",
    "test servers",
    "parking barrier",
)
_NEWS = (
    "New opening hours of the front desk",
    "The fire drill went well",
    "Construction works behind building C",
    "Parcels for private persons",
    "Holiday calendar for 2026",
    "New first-aid boxes",
    "Results of the staff survey",
    "House rules of this forum",
)
_HOURS = ("18:00", "19:30", "20:00", "21:00", "22:30")
_GENERAL = (
    "Thanks for posting this.",
    "I was about to ask the same thing.",
    "Good point. I had not thought of that.",
    "Could somebody from the {room} team say a word about it?",
    "That matches what I saw on {day}.",
    "I am not sure that I agree, but let us try it.",
    "+1 from the {floor}.",
    "Let us talk about it on {day} in the {room} room.",
    "I will ask around and come back to you.",
    "Please keep us posted here.",
    "My team has the same opinion.",
    "This came up last year too, and nothing happened.",
    "Happy to help. Write me a private message.",
    "Count me in.",
    "Is there any news since {day}?",
    "Well said.",
    "Not for me, but enjoy it!",
    "I have printed this and put it up on the {floor}.",
    "Somebody should add this to the wiki.",
    "It took me {number} minutes to find this thread. Thank you anyway!",
)
_REPLIES = {
    "help": (
        "Same here, on the {floor}.",
        "Have you tried {fix}?",
        "For me {fix} helped.",
        "I opened a ticket about it on {day}. No answer yet.",
        "It only happens to me on {day}s. Strange.",
        "It worked again after {fix}. Thanks to everybody!",
        "Which model is it? There is a sticker with {number} digits at the back.",
        "We had that in the {room} room. In the end it had to be replaced.",
        "Please bring it to the help desk on the {floor}, it is open until {hour}.",
        "I can lend you mine until {day}.",
        "After {number} tries it works for me too. No idea why.",
        "Do not do {fix}! It made things worse here.",
    ),
    "sale": (
        "Is it still available?",
        "Would you take {number} less?",
        "I could fetch it on {day} after {hour}.",
        "Could you bring it to the {room} room so that I can have a look?",
        "What are the measurements?",
        "My sister is looking for exactly that. I will ask her.",
        "How old is it?",
        "I will take it if nobody else wants it.",
        "Sent you a private message.",
        "Great price. Pity that I have no space.",
    ),
    "lost": (
        "Not mine, sorry.",
        "I think I saw it on {day} on the {floor}.",
        "Ask the front desk, they have a box of such things.",
        "That could be from the visitor we had in the {room} room.",
        "Mine! I will come over on {day}.",
        "Somebody asked for it at the front desk at {hour}.",
    ),
    "ride": (
        "I would join on {day}s.",
        "Can you stop at the station?",
        "Is there still a seat?",
        "I leave {number} minutes later, so no, sadly.",
        "The bridge is closed until {day}, mind the detour.",
        "I share the petrol, of course.",
    ),
    "idea": (
        "Very good idea!",
        "Who would pay for it?",
        "We tried that {number} years ago. It worked for a month.",
        "I would help with it on {day}s.",
        "Please think of the colleagues on the {floor}.",
        "Why not simply ask the works council?",
        "I voted. The result will be close.",
        "The {room} room would be good for it.",
    ),
    "project": (
        "The draft is in the shared folder. Comments until {day}, please.",
        "Who talks to the supplier?",
        "We are {number} days late, but the quality is right.",
        "I moved our meeting to the {room} room at {hour}.",
        "Can we have the numbers of the {floor} too?",
        "The test went well; {number} small defects are left.",
        "I would rather wait for the answer of the customer.",
        "Done. Next, please.",
    ),
    "club": (
        "I will be there!",
        "Sorry, I cannot come this time.",
        "I bring a friend, if that is all right.",
        "Can we start at {hour} instead?",
        "Last time we were {number}. Let us beat that.",
        "See you in the {room} room.",
        "That was great fun. Thanks for organising it!",
        "Who takes the photos this time?",
    ),
    "cook": (
        "Made it on {day}. Everybody loved it.",
        "I added {number} cloves of garlic. No regrets.",
        "How long does it keep?",
        "Does it work without eggs?",
        "Mine needed {number} minutes more in the oven.",
        "Bring some to the {floor}, please!",
    ),
    "news": (
        "Thank you for the early notice.",
        "Does it concern the {floor} too?",
        "Will it be over by {hour}?",
        "Please do not do this on a {day}.",
        "Noted in our team calendar.",
        "Finally!",
    ),
}
_SPAM = (
    "Best watches, {number}0 % off, only today! Visit watch-bargain.example now.",
    "Earn {number}00 a week from home! Ask me how at easy-money.example",
    "Lose weight in {number} days with one simple pill: slim-miracle.example",
    "Free phones for the first {number}0 visitors of phone-giveaway.example",
)
_PRIVATE = (
    "Birthday present for {name}",
    "Desk swap in the {room} room",
    "Draft of the February report",
    "Surprise party on {day}",
    "Interview panel for the trainee",
    "Weekend trip to {town}",
    "Cover for my holidays",
    "Numbers for the {project} budget",
    "Team photo on {day}",
    "Feedback on your slides",
)


class _Writer:
    """Makes the threads of a seed."""

    def __init__(self, rng: random.Random, names: Sequence[str]) -> None:
        self.rng = rng
        self.names = names

    def filled(self, text: str) -> str:
        rng = self.rng
        return text.format(
            room=rng.choice(_ROOMS),
            town=rng.choice(_TOWNS),
            day=rng.choice(_DAYS),
            floor=rng.choice(_FLOORS),
            fix=rng.choice(_FIXES),
            hour=rng.choice(_HOURS),
            number=rng.randint(3, 9),
            project=rng.choice(_PROJECTS),
            name=rng.choice(self.names[3:39]).split()[0],
        )

    def author(self) -> int:
        return self.rng.choice(_NORMAL)

    def thread(
        self,
        title: str,
        category: str,
        opening: str,
        kind: str,
        *,
        author: int | None = None,
        poll: Poll | None = None,
        **details: str,
    ) -> Thread:
        rng = self.rng
        begun = _LAST - timedelta(minutes=rng.randint(600, 60 * 24 * 420))
        author = self.author() if author is None else author
        comments = [Reply(author, begun, opening)]
        count = min(int(rng.expovariate(1 / 6)), 18)
        self.discuss(comments, kind, count)
        return Thread(title, category, comments, details, poll)

    def discuss(self, comments: list[Reply], kind: str, count: int) -> None:
        """Add replies, each by somebody else than the one before."""
        rng = self.rng
        pool = [*_REPLIES[kind], *_GENERAL, *_REPLIES[kind]]
        rng.shuffle(pool)
        regulars = rng.sample(_NORMAL, min(12, 3 + count // 2))
        date = comments[-1].date
        for number in range(count):
            left = (_LAST - date) / max(count - number, 1)
            date += min(left * 0.8, timedelta(minutes=rng.randint(7, 3000)))
            date = date.replace(second=0, microsecond=0) + timedelta(seconds=number % 60)
            asker = comments[0].author
            choice = [one for one in (*regulars, asker) if one != comments[-1].author]
            text = self.filled(pool[number % len(pool)])
            comments.append(Reply(rng.choice(choice), date, text))

    def sample(self, of: Sequence[str], count: int) -> list[str]:
        return self.rng.sample(of, count)

    def pairs(
        self, first: Sequence[str], second: Sequence[str], count: int
    ) -> list[tuple[str, str]]:
        every = [(one, two) for one in first for two in second]
        return self.rng.sample(every, count)

    def day(self) -> str:
        """Return a date in March or April 2026, in words."""
        day = datetime(2026, 3, 9, tzinfo=UTC) + timedelta(days=self.rng.randint(0, 45))
        return f"{day.day} {day:%B} 2026"

    # The kinds of threads.

    def help(self) -> Iterator[Thread]:
        rng = self.rng
        for first, second, category, count in (
            (_DEVICES, _DEFECTS, "Hardware", 26),
            (_PROGRAMS, _BUGS, "Software", 24),
        ):
            for thing, symptom in self.pairs(first, second, count):
                room, tried = rng.choice(_ROOMS), rng.choice(_TRIED)
                yield self.thread(
                    f"{thing} {symptom}",
                    category,
                    f"Since {rng.choice(_DAYS)} my {thing.lower()} {symptom}. I sit in the "
                    f"{room} room. I have {tried}, without success. Any ideas?",
                    "help",
                    room=room,
                )
        for pattern in _LINKS:
            for room in self.sample(_ROOMS, 4):
                hour = rng.choice(_HOURS)
                yield self.thread(
                    pattern.format(room=room),
                    "Network",
                    f"It is about the {room} room. We need it for a meeting at {hour}. I have "
                    f"{rng.choice(_TRIED)}. Who can help?",
                    "help",
                    room=room,
                    hour=hour,
                )

    def office(self) -> Iterator[Thread]:
        rng = self.rng
        for meal in self.sample(_MEALS, 8):
            yield self.thread(
                f"Canteen wish: {meal.lower()}",
                "Canteen",
                f"Could the canteen offer {meal.lower()} once a month? I would come on "
                f"{rng.choice(_DAYS)}s, even at {rng.choice(('11:30', '12:15', '13:00'))}.",
                "idea",
            )
        for town in self.sample(_TOWNS, 12):
            seats, hour = (
                rng.randint(1, 4),
                rng.choice(("06:40", "07:05", "07:20", "07:45", "08:10")),
            )
            yield self.thread(
                f"Car pool from {town}",
                "Commuting",
                f"I drive from {town} every day and leave at {hour}. "
                f"Free seats: {seats}. Back at {rng.choice(('16:30', '17:00', '17:45'))}.",
                "ride",
                town=town,
                seats=str(seats),
                hour=hour,
            )
        for thing in self.sample(_OBJECTS, 16):
            place, room = rng.choice(_PLACES), rng.choice(_ROOMS)
            if rng.random() < 0.6:
                yield self.thread(
                    f"Found: {thing}",
                    "Lost and Found",
                    f"I found this in or near {place}: a {thing}. You can fetch it from me in the "
                    f"{room} room.",
                    "lost",
                    thing=thing,
                    room=room,
                )
            else:
                yield self.thread(
                    f"Lost: {thing}",
                    "Lost and Found",
                    f"I lost my {thing}, probably near {place}. If you find it, please bring it to "
                    f"the {room} room.",
                    "lost",
                    thing=thing,
                    room=room,
                )

    def market(self) -> Iterator[Thread]:
        rng = self.rng
        prices: set[int] = set()
        for item, about in _ITEMS:
            price = next(
                one
                for one in (round(about * rng.uniform(0.8, 1.25)) for _ in range(99))
                if one not in prices
            )
            prices.add(price)
            room, condition = rng.choice(_ROOMS), rng.choice(_CONDITIONS)
            yield self.thread(
                f"For sale: {item}",
                "For Sale",
                f"I sell my {item}. Price: {price} EUR. Condition: {condition}. "
                f"You can collect it in the {room} room.",
                "sale",
                item=item,
                price=str(price),
                condition=condition,
                room=room,
            )
        for thing in self.sample(_SEARCHED, 12):
            most = rng.randint(2, 30) * 5
            yield self.thread(
                f"Wanted: {thing}",
                "Wanted",
                f"I am looking for this: {thing}. I would pay up to {most} EUR. "
                f"Offers until {rng.choice(_DAYS)}, please.",
                "sale",
                thing=thing,
                price=str(most),
            )

    def ideas(self) -> Iterator[Thread]:
        rng = self.rng
        for number, (title, question, options) in enumerate(_IDEAS):
            poll = None
            if number < 14:
                voters = rng.sample(_NORMAL, rng.randint(9, 25))
                # One option wins clearly, so that the result is not a matter of rounding.
                favourite = rng.randrange(len(options))
                votes = {
                    voter: favourite if rng.random() < 0.35 else rng.randrange(len(options))
                    for voter in voters
                }
                counts = [list(votes.values()).count(one) for one in range(len(options))]
                while max(counts) - sorted(counts)[-2] < 2:
                    votes[next(v for v in _NORMAL if v not in votes)] = favourite
                    counts = [list(votes.values()).count(one) for one in range(len(options))]
                    favourite = counts.index(max(counts))
                poll = Poll(question, list(options), votes, closed=number % 5 == 4)
            yield self.thread(
                title,
                "Ideas",
                f"What do you think of this: {title[0].lower() + title[1:]}? "
                f"I would bring it up in the next meeting in the {rng.choice(_ROOMS)} room.",
                "idea",
                poll=poll,
            )

    def projects(self) -> Iterator[Thread]:
        rng = self.rng
        for name in _PROJECTS:
            for stage in rng.sample(_STAGES, 3):
                day, budget = self.day(), rng.randint(12, 98) * 500
                lead = self.names[rng.choice(_NORMAL)]
                yield self.thread(
                    f"Project {name}: {stage}",
                    "Projects",
                    f"Notes on project {name}.\n\n* Lead: {lead}\n* Deadline: {day}\n"
                    f"* Budget: {budget} EUR\n\nPlease correct me where I am wrong.",
                    "project",
                    lead=lead,
                    deadline=day,
                    budget=str(budget),
                )

    def clubs(self) -> Iterator[Thread]:
        rng = self.rng
        for month, book in zip(_MONTHS, rng.sample(_BOOKS, len(_BOOKS)), strict=True):
            room, pages = rng.choice(_ROOMS), rng.randint(140, 620)
            yield self.thread(
                f"Book club {month}: {book}",
                "Book Club",
                f"Our book is *{book}*. It has {pages} pages. We meet in the {room} room at "
                f"{rng.choice(_HOURS)}.",
                "club",
                book=book,
                room=room,
                pages=str(pages),
            )
        for route in rng.sample(_ROUTES, 9):
            day, length = rng.choice(_DAYS), rng.randint(3, 16)
            yield self.thread(
                f"{day} run: {route}",
                "Running",
                f"We run the {route} on {day}: {length} km, starting at {rng.choice(_PLACES)}. "
                f"Everybody is welcome.",
                "club",
                length=str(length),
            )
        for meal in rng.sample(_MEALS, 12):
            minutes, eaters = rng.randint(4, 24) * 5, rng.randint(2, 8)
            yield self.thread(
                f"Recipe: {meal.lower()}",
                "Cooking",
                f"{meal} for {eaters} people. It takes {minutes} minutes.\n\n1. Cut everything.\n"
                f"2. Cook it slowly.\n3. Eat it on a {rng.choice(_DAYS)}.",
                "cook",
                minutes=str(minutes),
                people=str(eaters),
            )
        for game in rng.sample(_GAMES, 9):
            room, players = rng.choice(_ROOMS), rng.randint(3, 8)
            yield self.thread(
                f"Games night: {game}",
                "Board Games",
                f"Who wants to play {game}? At most {players} players, on {rng.choice(_DAYS)} in "
                f"the {room} room.",
                "club",
                game=game,
                room=room,
                players=str(players),
            )
        for thing in rng.sample(_GARDEN, 9):
            yield self.thread(
                thing,
                "Gardening",
                f"I would like to talk about this: {thing[0].lower() + thing[1:]}. Next work day: "
                f"{rng.choice(_DAYS)} at {rng.choice(_HOURS)}.",
                "club",
            )

    def announcements(self) -> Iterator[Thread]:
        rng = self.rng
        for system in _SYSTEMS:
            day, hour, hours = self.day(), rng.choice(_HOURS), rng.randint(2, 6)
            contact = self.names[rng.choice(_NORMAL)]
            yield self.thread(
                f"Maintenance: {system}",
                "Announcements",
                f"There is maintenance work on this: {system}.\n\n* Date: {day}\n* Start: {hour}\n"
                f"* Duration: {hours} hours\n* Contact: {contact}",
                "news",
                author=rng.choice((ADMIN, *MODERATORS)),
                system=system,
                day=day,
                hour=hour,
                hours=str(hours),
                contact=contact,
            )
        for title in _NEWS:
            yield self.thread(
                title,
                "Announcements",
                f"{title}: the details are on the notice board on the {rng.choice(_FLOORS)} and "
                "in the intranet. Please ask your questions here.",
                "news",
                author=rng.choice((ADMIN, *MODERATORS)),
            )


def threads(seed: int, names: Sequence[str]) -> tuple[list[Thread], list[Thread]]:
    """Return the public threads and the private ones, each from the oldest to the newest.

    Args:
        seed: The seed; the same gives the same.
        names: The names of the 40 members.
    """
    rng = random.Random(f"forum {seed}")
    writer = _Writer(rng, names)
    makers = (
        writer.help,
        writer.office,
        writer.market,
        writer.ideas,
        writer.projects,
        writer.clubs,
        writer.announcements,
    )
    public = [thread for make in makers for thread in make()]
    _make_long(writer, public)
    _let_user_write(rng, public)
    _moderate(rng, public)
    _spam(writer, public)
    _like(rng, public)
    private = _private(writer)
    for made in (public, private):
        made.sort(key=lambda thread: thread.comments[0].date)
    return public, private


_KINDS = {
    "Ideas": "idea",
    "Projects": "project",
    "Hardware": "help",
    "Software": "help",
    "Canteen": "idea",
}


def _make_long(writer: _Writer, public: list[Thread]) -> None:
    """Make ten discussions long: two or three pages."""
    rng = writer.rng
    chosen = [thread for thread in public if thread.category in _KINDS]
    for thread in rng.sample(chosen, 10):
        first = thread.comments[0]
        first.date = min(first.date, _LAST - timedelta(days=60))
        thread.comments = [first]
        writer.discuss(thread.comments, _KINDS[thread.category], rng.randint(24, 48))


def _let_user_write(rng: random.Random, public: list[Thread]) -> None:
    """Make the user the author of some threads and comments."""
    fit = ("Hardware", "For Sale", "Ideas", "Commuting", "Cooking", "Board Games", "Canteen")
    for category in fit:
        own = [t for t in public if t.category == category and len(t.comments) < 15]
        if category == "Ideas":
            own = [t for t in own if t.poll and not t.poll.closed]
        for thread in rng.sample(own, 2):
            before = thread.author
            for comment in thread.comments:
                if comment.author == before:
                    comment.author = USER
    others = [t for t in public if t.author != USER and 3 <= len(t.comments) < 19]
    for thread in rng.sample(others, 30):
        rng.choice(thread.comments[1:]).author = USER
    polls = [t.poll for t in public if t.poll and not t.poll.closed and t.author != USER]
    for poll in rng.sample(polls, 4):
        poll.votes[USER] = rng.randrange(len(poll.options))


def _moderate(rng: random.Random, public: list[Thread]) -> None:
    """Close, pin and delete some threads."""
    plain = [t for t in public if t.author != USER and t.poll is None and len(t.comments) < 19]
    chosen = rng.sample(plain, 36)
    for thread in chosen[:16]:
        thread.closed = True
    for thread in chosen[16:24]:
        thread.pinned = True
    for thread in chosen[24:26]:
        thread.globally_pinned = True
    for thread in chosen[26:32]:
        thread.removed = True
    for thread in chosen[32:]:
        if len(thread.comments) > 2:
            thread.comments[-1].removed = True


def _spam(writer: _Writer, public: list[Thread]) -> None:
    """Let one account advertise in a few threads, most often in one."""
    rng = writer.rng
    usable = [t for t in public if not (t.removed or t.closed) and 4 <= len(t.comments) < 19]
    long = [t for t in public if not (t.removed or t.closed) and 24 <= len(t.comments) < 45]
    places = [(thread, 1) for thread in rng.sample(usable, 6)]
    places += [(thread, rng.randint(3, 5)) for thread in rng.sample(long, 3)]
    for thread, count in places:
        for _ in range(count):
            at = rng.randint(2, len(thread.comments))
            before = thread.comments[at - 1].date
            after = thread.comments[at].date if at < len(thread.comments) else _LAST
            spam = Reply(SPAMMER, before + (after - before) / 2, writer.filled(rng.choice(_SPAM)))
            spam.spam = True
            thread.comments.insert(at, spam)


def _like(rng: random.Random, public: list[Thread]) -> None:
    """Let members like comments. In each thread one comment is liked most."""
    for thread in public:
        usable = [c for c in thread.comments if not (c.spam or c.removed)]
        for comment in usable:
            if rng.random() < 0.3:
                fans = [one for one in _NORMAL if one != comment.author]
                comment.likes = rng.sample(fans, rng.randint(1, 4))
        best = rng.choice(usable)
        best.likes = rng.sample([one for one in _NORMAL if one != best.author], rng.randint(6, 11))
        if rng.random() < 0.08:
            liked = rng.choice(usable)
            if liked.author != USER and liked is not best and len(thread.comments) < 19:
                liked.likes.append(USER)


def _private(writer: _Writer) -> list[Thread]:
    """Return the user's private threads: half of them by the user."""
    rng = writer.rng
    made: list[Thread] = []
    for number, pattern in enumerate(_PRIVATE):
        title = writer.filled(pattern)
        others = rng.sample(_NORMAL, rng.randint(2, 4))
        author = USER if number % 2 else others[0]
        members = [USER, *others]
        date = _LAST - timedelta(minutes=rng.randint(2000, 60 * 24 * 90))
        comments = [
            Reply(
                author,
                date,
                f"Hello! It is about this: {title[0].lower() + title[1:]}. "
                f"Can you answer by {rng.choice(_DAYS)}?",
            )
        ]
        for answer in rng.sample(
            (
                "Yes, I can.",
                "Give me one more day, please.",
                "Fine with me.",
                "Shall we talk about it at lunch?",
                "I have no time this week, sorry.",
                "Great idea. I am in.",
            ),
            rng.randint(1, 4),
        ):
            date += timedelta(minutes=rng.randint(9, 400))
            writers = [one for one in members if one != comments[-1].author]
            comments.append(Reply(rng.choice(writers), date, answer))
        made.append(Thread(title, "Private", comments, {}, members=members))
    return made
