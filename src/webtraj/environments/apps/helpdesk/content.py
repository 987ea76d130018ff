"""What the help desk's world is made from: queues, tickets, replies, answers.

Data only, read by `host.py`. Texts have slots in braces, which the host fills by seed.
"""

from typing import NamedTuple

__all__ = [
    "AGENT_NOTES",
    "AGENT_REPLIES",
    "CATEGORIES",
    "CHECKLISTS",
    "COMPANIES",
    "IGNORED",
    "PRESETS",
    "QUEUES",
    "RESOLUTIONS",
    "SCENARIOS",
    "SEARCHES",
    "SLOTS",
    "Answer",
    "Queue",
]


class Queue(NamedTuple):
    """A queue of tickets."""

    slug: str
    title: str
    is_public: bool
    escalate_days: int


QUEUES = (
    Queue("it", "IT Support", True, 3),
    Queue("fac", "Facilities", True, 5),
    Queue("hr", "Human Resources", True, 7),
    Queue("fin", "Finance", False, 7),
    Queue("ord", "Orders and Delivery", True, 2),
    Queue("ret", "Returns and Refunds", True, 4),
    Queue("web", "Website", True, 5),
    Queue("sec", "Security", False, 1),
)

SLOTS = {
    "room": tuple(f"{floor}.{room:02d}" for floor in range(1, 6) for room in range(1, 19)),
    "floor": ("first", "second", "third", "fourth", "fifth"),
    "city": (
        "Aarhus",
        "Bergen",
        "Bremen",
        "Cork",
        "Dundee",
        "Ghent",
        "Graz",
        "Leeds",
        "Malmo",
        "Turku",
    ),
    "tool": (
        "the time sheet",
        "the expense form",
        "the stock list",
        "the wiki",
        "the shared calendar",
    ),
    "product": (
        "oak desk lamp",
        "linen cushion",
        "walnut shelf",
        "stoneware teapot",
        "wool blanket",
        "brass coat hook",
        "folding chair",
        "copper kettle",
        "bamboo tray",
        "glass carafe",
        "cork notice board",
        "enamel mug set",
    ),
    "page": (
        "the basket",
        "the search page",
        "the account page",
        "the store finder",
        "the gift card page",
    ),
    "month": ("September", "October", "November", "December", "January"),
    "training": ("first aid", "fire warden", "spreadsheets", "public speaking", "data protection"),
    "colour": ("amber", "blue", "green", "grey", "red", "white"),
}
"""Values that may come again; device, order, invoice and badge are numbers, each once."""

SCENARIOS: dict[str, tuple[tuple[str, str], ...]] = {
    "it": (
        (
            "Laptop {device} does not start",
            "Since this morning {device} shows only a {colour} light. I am in room {room}.",
        ),
        (
            "Blue screen on laptop {device}",
            "{device} has stopped three times today, always while I opened {tool}.",
        ),
        ("New battery for laptop {device}", "The battery of {device} lasts for less than an hour."),
        (
            "Printer {device} prints stripes",
            "The printer in the corridor near room {room} prints {colour} stripes on every page.",
        ),
        (
            "Cannot open {tool} from laptop {device}",
            "A message says that I have no permission for {tool}. It worked last week.",
        ),
        (
            "Second screen for desk of {device}",
            "I work on drawings all day and would like a second screen. My computer is {device}.",
        ),
        (
            "Laptop {device} is slow on the wireless network",
            "Downloads take minutes in room {room}; by cable all is well.",
        ),
        (
            "Docking station of {device} loses the screen",
            "The screen of {device} goes dark every few minutes. I have changed the cable.",
        ),
        (
            "VPN drops on laptop {device}",
            "From home the VPN of {device} drops after about ten minutes.",
        ),
    ),
    "fac": (
        (
            "Heating in room {room} too low (work order {badge})",
            "It is 17 degrees in room {room}. The valve is fully open.",
        ),
        (
            "Light flickers in room {room} (work order {badge})",
            "The lamp over the desks by the window flickers.",
        ),
        (
            "Window does not close (work order {badge})",
            "The left window of room {room} does not close, and it rains in.",
        ),
        (
            "Chair to be repaired (work order {badge})",
            "The back of my chair has come off. It is marked {badge}. Room {room}.",
        ),
        (
            "Move of two desks (work order {badge})",
            "Please move two desks from room {room} to the {floor} floor.",
        ),
        (
            "Coffee machine leaks (work order {badge})",
            "The machine on the {floor} floor leaks; there is water on the floor.",
        ),
        (
            "Key for the bicycle cellar (work order {badge})",
            "I have started to come by bicycle and need a key.",
        ),
    ),
    "hr": (
        (
            "Question about pay slip {invoice}",
            "My pay slip {invoice} for {month} lists a deduction that I do not understand.",
        ),
        (
            "Certificate of employment ({invoice})",
            "My landlord asks for a certificate of employment. My file number is {invoice}.",
        ),
        (
            "Change of bank account ({invoice})",
            "I have a new bank account. My file number is {invoice}.",
        ),
        (
            "Place in the {training} training ({invoice})",
            "Is there a place in the next {training} training? File number {invoice}.",
        ),
        (
            "Parental leave from {month} ({invoice})",
            "I would like to talk about parental leave. File number {invoice}.",
        ),
        (
            "Unused leave of last year ({invoice})",
            "How many days may I take with me into the new year? File number {invoice}.",
        ),
    ),
    "fin": (
        (
            "Invoice {invoice} paid twice",
            "We have paid invoice {invoice} in {month} twice, by the bank statement.",
        ),
        (
            "Invoice {invoice} lacks the tax number",
            "The supplier in {city} has sent invoice {invoice} without a tax number.",
        ),
        (
            "Travel costs to {city} ({invoice})",
            "Please check my travel costs to {city}. The claim is {invoice}.",
        ),
        (
            "Reminder for invoice {invoice}",
            "The customer in {city} has had two reminders for {invoice} and does not answer.",
        ),
        (
            "Cost centre of invoice {invoice}",
            "Which cost centre is right for {invoice}? It is furniture for the {floor} floor.",
        ),
    ),
    "ord": (
        (
            "Order {order} has not arrived",
            "My order {order} should have come last week. It is a {product}.",
        ),
        (
            "Wrong article in order {order}",
            "I ordered a {product} and received something else. Order {order}.",
        ),
        (
            "Change of address for order {order}",
            "I have moved to {city}. Please send order {order} there.",
        ),
        (
            "Parcel of order {order} is damaged",
            "The box was open, and the {product} has a crack. Order {order}.",
        ),
        ("Order {order} is incomplete", "One {product} is missing from the parcel. Order {order}."),
        (
            "When will order {order} be sent?",
            "The page says that order {order} is being packed, since a week.",
        ),
        (
            "Invoice for order {order}",
            "I need an invoice with our company's name for order {order}.",
        ),
        (
            "Cancel order {order}",
            "I have ordered the {product} twice by mistake. Please cancel {order}.",
        ),
    ),
    "ret": (
        (
            "Refund for order {order}",
            "I sent the {product} back two weeks ago. Where is my money? Order {order}.",
        ),
        (
            "Return label for order {order}",
            "There was no return label in the parcel of order {order}.",
        ),
        (
            "Exchange of a {product}, order {order}",
            "Could I have the {product} in {colour} in place of the one I received?",
        ),
        (
            "Partial refund for order {order}",
            "The {product} has a scratch. I would keep it for a lower price. Order {order}.",
        ),
        (
            "Return of order {order} was refused",
            "The post office did not accept the parcel. Order {order}.",
        ),
        (
            "Voucher of order {order} lost after return",
            "I paid order {order} partly by voucher. What happens to the voucher?",
        ),
    ),
    "web": (
        (
            "Error {badge} on {page}",
            "When I open {page}, the number {badge} appears and nothing more.",
        ),
        (
            "Picture of the {product} is wrong ({badge})",
            "The page of the {product} shows another article. Article number {badge}.",
        ),
        (
            "Cannot log in to customer account {badge}",
            "The page says that my password is wrong. I have changed it twice.",
        ),
        (
            "Typing error in the text of the {product} ({badge})",
            "There is a typing error in the second line. Article number {badge}.",
        ),
        (
            "Newsletter comes twice ({badge})",
            "I receive each newsletter twice. My customer number is {badge}.",
        ),
        ("Delete customer account {badge}", "Please delete my account with all data."),
    ),
    "sec": (
        (
            "Strange mail about parcel {order}",
            "The mail asks me to open a link and to enter my password.",
        ),
        ("Badge {badge} lost", "I lost my badge on the way to {city}. Please block it."),
        (
            "Unknown device {device} on the network",
            "The scanner reports {device} in room {room}; nobody knows it.",
        ),
        (
            "Access to the server room for badge {badge}",
            "The technician from {city} comes on Thursday and needs access.",
        ),
        (
            "Laptop {device} stolen on a train",
            "My bag was stolen on the train to {city}. The disk is encrypted.",
        ),
    ),
}
"""Titles and descriptions of tickets, by slug of their queue. Each title has its own number."""

AGENT_REPLIES = (
    "Thank you, we have received this and will look into it today.",
    "Could you please send us a photo?",
    "I have ordered the part. It should be here by the end of the week.",
    "I have talked to the supplier; they promise an answer within two days.",
    "Please try again now, and tell us whether it works.",
    "We need your approval before we can go on.",
    "I have passed this on to the colleagues in {city}.",
    "Would tomorrow at ten suit you?",
)
AGENT_NOTES = (
    "Checked the log: nothing unusual.",
    "The third case of this kind this month.",
    "Waits for the spare part, see the purchase list.",
    "Called, nobody answered. I will try again.",
    "Looks like the problem that we had in {city}.",
    "Price agreed with the supplier: {n} EUR.",
)
"""Private notes of agents."""

RESOLUTIONS = {
    "it": (
        "Replaced the cable.",
        "Installed the current driver.",
        "Replaced the device.",
        "Renewed the permission.",
    ),
    "fac": (
        "Repaired on site.",
        "Ordered and installed a new one.",
        "Done with the morning round.",
    ),
    "hr": ("Answered by phone.", "Sent the document by internal post.", "Entered in the file."),
    "fin": (
        "Corrected in the books.",
        "Asked the supplier for a new invoice.",
        "Paid with the next run.",
    ),
    "ord": (
        "Sent again by express.",
        "The carrier has delivered the parcel.",
        "Changed as asked.",
        "Cancelled.",
    ),
    "ret": ("Money returned to the card.", "Sent a new label.", "Sent a voucher."),
    "web": ("Corrected on the page.", "Reset the account.", "Fixed with the last release."),
    "sec": ("Blocked and replaced.", "Harmless: a test of our own.", "Reported to the police."),
}

COMPANIES = (
    "bluebridge",
    "corvina",
    "eastmere",
    "fairwell",
    "granby",
    "halcyon",
    "larkfield",
    "oldgate",
)
"""Customers' mail domains, below `.example`."""


class Answer(NamedTuple):
    """An article of the knowledge base; a text with one slot, and the slot's possible values."""

    title: str
    question: str
    text: str
    values: tuple[str, ...]
    asks: str


CATEGORIES: tuple[tuple[str, str, str, str, str, tuple[Answer, ...]], ...] = (
    (
        "network",
        "Network and VPN",
        "How to connect at the office, at home and on the road.",
        "it",
        "network",
        (
            Answer(
                "Connect to the VPN from home",
                "How do I reach the file server from home?",
                "Open the VPN client, enter the gateway **{value}**, and log in as usual.",
                ("gate1.northfield.test", "gate2.northfield.test", "gate3.northfield.test"),
                "Which gateway do you enter in the VPN client to work from home?",
            ),
            Answer(
                "Wireless network for guests",
                "How do my visitors get on the network?",
                "Guests use *Northfield Guest*. A guest account is valid for {value} hours.",
                ("8", "12", "24", "48"),
                "For how many hours is an account for the guests' wireless network valid?",
            ),
            Answer(
                "Which ports are open in the meeting rooms?",
                "The cable in the meeting room does not work.",
                "Only the sockets marked in {value} are connected.",
                ("yellow", "orange", "violet"),
                "Which colour marks the network sockets that are connected in the meeting rooms?",
            ),
            Answer(
                "Speed of the network at the sites",
                "How fast is the line of our warehouse?",
                "The warehouse has a line of {value} megabits per second.",
                ("200", "500", "750"),
                "How fast is the warehouse's network line, in megabits per second?",
            ),
        ),
    ),
    (
        "devices",
        "Computers and phones",
        "New devices, repairs and loans.",
        "it",
        "devices",
        (
            Answer(
                "When do I get a new laptop?",
                "How long do we keep a laptop?",
                "Laptops are replaced after {value} months.",
                ("36", "42", "48", "54"),
                "After how many months is a laptop replaced?",
            ),
            Answer(
                "Borrow a projector",
                "Where can I borrow a projector?",
                "Projectors are in cupboard {value}. Please write your name into the list.",
                ("K4", "L7", "M2", "P9"),
                "In which cupboard are the projectors that one can borrow?",
            ),
            Answer(
                "Code of the printers",
                "The printer asks for a code before it prints.",
                "Enter the end of your badge number. After {value} wrong codes the printer locks.",
                ("three", "four", "five", "six"),
                "After how many wrong codes does a printer lock itself?",
            ),
            Answer(
                "Lost phone",
                "What do I do when I have lost my phone?",
                "Call {value} at once, at any hour. We then erase the phone from afar.",
                ("extension 4411", "extension 4455", "extension 4477"),
                "Which extension do you call when you have lost your phone?",
            ),
        ),
    ),
    (
        "building",
        "Building and rooms",
        "Heating, keys, parking and meeting rooms.",
        "fac",
        "building",
        (
            Answer(
                "Book the large meeting room",
                "How many people fit into the large meeting room?",
                "The large meeting room has {value} seats. Book it in the calendar.",
                ("24", "28", "32", "36"),
                "How many seats does the large meeting room have?",
            ),
            Answer(
                "Parking for visitors",
                "Where can visitors park?",
                "Visitors park on deck {value}. The barrier opens by itself.",
                ("A", "B", "C", "D"),
                "On which deck do visitors park?",
            ),
            Answer(
                "Hours of the reception",
                "When is someone at the reception?",
                "The reception is open from 7:30 until {value}.",
                ("17:30", "18:00", "18:30", "19:00"),
                "Until what time is the reception open?",
            ),
            Answer(
                "Fire drill",
                "Where do we meet in case of fire?",
                "Leave the building by the nearest stairs and go to the {value}.",
                ("north gate", "bicycle stand", "loading yard"),
                "Where do people meet in case of fire?",
            ),
        ),
    ),
    (
        "people",
        "Leave, pay and training",
        "Questions that everyone asks once.",
        "hr",
        "people",
        (
            Answer(
                "How much notice for a day off?",
                "When must I ask for a single day off?",
                "Ask {value} days before, in the time sheet.",
                ("3", "5", "7", "10"),
                "How many days before must one ask for a single day off?",
            ),
            Answer(
                "Training budget",
                "How much may a training cost?",
                "Everyone has {value} euros a year for training.",
                ("400", "600", "800", "950"),
                "How many euros a year does everyone have for training?",
            ),
            Answer(
                "Pay day",
                "When is our pay transferred?",
                "Pay is transferred on the {value} of each month.",
                ("25th", "26th", "27th", "28th"),
                "On which day of the month is pay transferred?",
            ),
            Answer(
                "Sick note",
                "When do I need a sick note?",
                "From the {value} day of illness on.",
                ("second", "third", "fourth"),
                "From which day of illness on does one need a sick note?",
            ),
        ),
    ),
    (
        "delivery",
        "Orders and delivery",
        "For our customers: from order to front door.",
        "ord",
        "delivery",
        (
            Answer(
                "How long does delivery take?",
                "When will my parcel arrive?",
                "Parcels arrive within {value} working days.",
                ("two", "three", "four", "five"),
                "Within how many working days do parcels arrive?",
            ),
            Answer(
                "Free delivery",
                "From which value on is delivery free?",
                "Delivery is free for orders of {value} euros and more.",
                ("49", "59", "69", "79"),
                "From how many euros on is delivery free?",
            ),
            Answer(
                "Change the address of an order",
                "Can I change the address after I have ordered?",
                "Yes, within {value} hours. Write to us with the number of your order.",
                ("2", "4", "6"),
                "Within how many hours after an order can its address be changed?",
            ),
            Answer(
                "Large furniture",
                "Who brings shelves and tables?",
                "Large furniture comes with {value}, who call one day before.",
                ("Harrow Freight", "Tidewater Haulage", "Pinecrest Movers"),
                "Which company brings large furniture?",
            ),
        ),
    ),
    (
        "returns",
        "Returns and refunds",
        "Send things back and get the money returned.",
        "ret",
        "returns",
        (
            Answer(
                "How long can I return an article?",
                "I do not like it. Can I send it back?",
                "You can return every unused article within {value} days.",
                ("21", "30", "45", "60"),
                "Within how many days can an unused article be returned?",
            ),
            Answer(
                "When do I get my money?",
                "I have sent the parcel back. And now?",
                "We check the article and transfer the money within {value} days.",
                ("5", "7", "9", "12"),
                "Within how many days is the money for a returned article transferred?",
            ),
            Answer(
                "Return without the box",
                "I have thrown the box away.",
                "Any box will do. We charge {value} euros if something breaks on the way.",
                ("4", "6", "8"),
                "How many euros are charged if something that was returned without its box breaks?",
            ),
            Answer(
                "Broken on arrival",
                "My parcel was damaged.",
                "Send us a photo within {value} days; there is no need to return the article.",
                ("3", "4", "5"),
                "Within how many days must a photo of a parcel damaged on arrival be sent?",
            ),
        ),
    ),
)
"""Name, title, description, slug of the queue, slug, and articles of each category."""

PRESETS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Ask for a photo",
        "Hello,\n\nplease send us a photo of the damage.\n\nYour Service Desk",
        ("ord", "ret"),
    ),
    (
        "Parcel is on its way",
        "Hello,\n\nyour parcel left our warehouse today.\n\nYour Service Desk",
        ("ord",),
    ),
    (
        "Refund started",
        "Hello,\n\nwe have started the refund. It takes up to five days.\n\nYour Service Desk",
        ("ret",),
    ),
    (
        "Restart first",
        "Hello,\n\nplease restart the computer and try again.\n\nYour Service Desk",
        ("it",),
    ),
    (
        "Technician comes",
        "Hello,\n\na technician will come to your desk tomorrow.\n\nYour Service Desk",
        ("it", "fac"),
    ),
    (
        "We need more time",
        "Hello,\n\nwe are still working on this and will write again soon.\n\nYour Service Desk",
        (),
    ),
    (
        "Passed to another team",
        "Hello,\n\nwe have passed your request to the right team.\n\nYour Service Desk",
        (),
    ),
    (
        "Page corrected",
        "Hello,\n\nthank you for telling us. The page is correct now.\n\nYour Service Desk",
        ("web",),
    ),
)
"""Name, text, and slugs of the queues (none: all) of each pre-set reply."""

CHECKLISTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "New colleague",
        ("Create the account", "Order a laptop", "Print the badge", "Send the welcome mail"),
    ),
    ("Laptop return", ("Check for damage", "Erase the disk", "Update the stock list")),
    (
        "Lost parcel",
        ("Ask the carrier", "Call the customer", "Start a second delivery", "Claim the insurance"),
    ),
    (
        "Security incident",
        ("Block the account", "Save the logs", "Inform the management", "Write the report"),
    ),
    ("Room move", ("Order boxes", "Label the desks", "Move the phones")),
)

SEARCHES = (
    ("Critical and open", {"status__in": [1, 2], "priority__in": [1]}),
    ("Resolved, to be closed", {"status__in": [3]}),
    ("Open security tickets", {"status__in": [1, 2], "queue__id__in": [8]}),
    ("Low priority backlog", {"status__in": [1, 2], "priority__in": [4, 5]}),
    ("Everything about returns", {"queue__id__in": [6]}),
)
"""Name and filter of each saved search."""

IGNORED = (
    ("Mail server", "postmaster@northfield.test"),
    ("Newsletter of a fair", "news@trade-fair.example"),
    ("Out of office robot", "no-reply@granby.example"),
    ("Advertising", "offers@bulk-mail.example"),
    ("Carrier's notices", "status@tidewater.example"),
    ("Survey", "survey@opinion.example"),
)
