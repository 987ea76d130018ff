"""What the intranet's world is made from. Data only, read by `host.py`.

Texts have slots in braces, which the host fills by seed.
"""

__all__ = [
    "ARTICLES",
    "BODIES",
    "EVENTS",
    "HOSTS",
    "JOBS",
    "NOTICES",
    "PLACES",
    "POLICIES",
    "ROLES",
    "SECTIONS",
    "TEMPLATES",
    "TERMS",
    "THINGS",
]

SECTIONS = (
    ("News", "news", "What happens at Northfield."),
    ("Events", "events", "Meetings, trainings and parties."),
    ("Policies", "policies", "Rules that hold for everyone, and who looks after them."),
    ("Jobs", "jobs", "Vacancies in all departments."),
    ("Archive", "archive", "Pages that are no longer current."),
)
"""Title, slug and text of the pages that list others."""

PLACES = (
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
)
THINGS = (
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
)
HOSTS = ("Design", "Finance", "Logistics", "Sales", "Support", "Works council", "Running group")

ARTICLES = (
    ("company", "Results of the {nth} quarter", "Sales have grown by {n} per cent."),
    ("company", "New supplier in {place}", "From spring on, a workshop in {place} works for us."),
    ("company", "We save {n} tons of packaging", "New boxes need less paper and no tape."),
    ("company", "Prize for our stand in {place}", "The fair's jury liked the {thing} best."),
    ("people", "Welcome, {name}", "{name} has joined us and works in room {n}."),
    ("people", "{name} has been here for {n} years", "We congratulate and say thank you."),
    ("people", "Three questions to {name}", "About work, holidays and the {thing}."),
    ("people", "{name} runs the marathon of {place}", "After {n} weeks of training."),
    ("products", "The {thing} is back", "After {n} weeks, the {thing} can be ordered again."),
    ("products", "How the {thing} is made", "A visit to the workshop in {place}."),
    ("products", "New colours for the {thing}", "Customers have asked for {n} of them."),
    ("products", "Recall of the {thing} from {place}", "A screw may become loose."),
    ("sites", "A new roof for {place}", "Work begins in week {n} and is loud."),
    ("sites", "Bicycle stands in {place}", "There is room for {n} bicycles now."),
    ("sites", "The canteen of {place} moves", "It opens again in week {n}."),
    ("sites", "Open day in {place}", "More than {n} neighbours came to see us."),
)
"""Category, title and summary of news."""

BODIES = (
    "The works council agrees.",
    "Questions are answered by the reception.",
    "Thanks to everyone who has helped.",
    "Pictures will follow.",
    "There is cake at three.",
    "Please tell your team.",
    "More at the next meeting.",
)

EVENTS = (
    ("Town hall in {place}", "Numbers, plans and your questions."),
    ("First aid course in {place}", "Bring comfortable clothes."),
    ("Spreadsheet training, part {n}", "Bring your laptop."),
    ("Workshop: the next {thing}", "We look at drafts and try materials."),
    ("Summer party in {place}", "With music; families are welcome."),
    ("Stock taking in {place}", "All hands are needed."),
    ("Language tandem, group {n}", "Over lunch."),
    ("Visit to the workshop in {place}", "The coach leaves at eight."),
    ("Board game evening {n}", "Crisps are paid for."),
)
"""Title and summary of events."""

POLICIES = (
    ("Travel costs", "Book the train where it takes less than six hours."),
    ("Working from home", "Up to two days a week, by agreement."),
    ("Passwords", "Long ones, and never the same twice."),
    ("Gifts from suppliers", "Up to twenty euros, and tell your lead."),
    ("Company bicycles", "Lock them, and charge them at the stand."),
    ("Visitors", "Visitors wear a badge and are never alone."),
    ("Lost badges", "Report them within an hour."),
    ("Sick leave", "Call before nine."),
    ("Meeting rooms", "Leave them as you would like to find them."),
    ("Data of customers", "Only what is needed, only as long as needed."),
    ("Photographs at events", "Ask before you publish a picture."),
    ("Dogs at the office", "One in each room, and only if all agree."),
    ("Printing", "On both sides, in grey, unless a customer sees it."),
    ("Overtime", "Agree on it first; take it off within three months."),
    ("Training", "Everyone may take five days a year."),
    ("Fire safety", "Keep doors and stairs free."),
    ("Social media", "Speak for yourself, not for the company."),
    ("Company phones", "Private calls within the country are free."),
    ("Purchasing", "Two offers from five hundred euros on."),
    ("Parking", "Deck A is for visitors."),
)
"""Title and summary of rules."""

JOBS = (
    ("design", "Furniture designer"),
    ("design", "Photographer"),
    ("design", "Packaging designer"),
    ("finance", "Accountant"),
    ("finance", "Payroll clerk"),
    ("finance", "Controller"),
    ("logistics", "Warehouse lead"),
    ("logistics", "Driver"),
    ("logistics", "Returns clerk"),
    ("sales", "Shop manager"),
    ("sales", "Key account manager"),
    ("sales", "Trade fair assistant"),
    ("support", "Support agent"),
    ("support", "Translator"),
    ("support", "Team lead of the help desk"),
)
"""Department and title of vacancies."""

ROLES = ("Editor", "Works council", "Press office", "Team assistant", "Site manager", "Trainee")

NOTICES = (
    ("The canteen is closed on Friday.", "information"),
    ("The lift in the west wing does not work.", "disruption"),
    ("Fire drill on Thursday at ten.", "warning"),
    ("New badges are ready at the reception.", "information"),
    ("The wireless network is slow today.", "disruption"),
    ("Ice on the car park: walk with care.", "warning"),
)
"""Text and level of notices."""

TERMS = (
    ("Backorder", "An order for something that has to come in first."),
    ("Drop shipment", "A delivery straight from the supplier to the customer."),
    ("Cost centre", "A number under which costs are collected."),
    ("Pick list", "What is to be fetched from the shelves for an order."),
    ("Lead time", "The time from the order to the delivery."),
    ("Credit note", "An invoice in the other direction."),
    ("Safety stock", "What must never be sold, so that there is always some left."),
    ("Goods receipt", "The entry of what has been delivered to us."),
    ("White label", "A product that others sell under their name."),
    ("Incoterm", "A rule for who pays the freight."),
    ("Churn", "Customers who do not come back."),
    ("Kanban card", "A card that orders new parts when the box is empty."),
)
"""Word and meaning of the glossary."""

_BASE = """{% load wagtailcore_tags wagtailsettings_tags %}
{% get_settings %}<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{ page.title }} - Northfield</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{margin:0;font:16px/1.5 system-ui,sans-serif;color:#222;background:#f4f5f2}
header{background:#24463d;color:#fff;padding:14px 32px;display:flex;gap:28px;align-items:baseline}
header a{color:#fff;text-decoration:none}header .name{font-size:22px;font-weight:600}
main{max-width:860px;margin:24px auto;background:#fff;padding:24px 36px;border-radius:6px}
.notice{max-width:860px;margin:12px auto 0;padding:8px 36px;border-radius:6px;background:#e4eef8}
.warning{background:#fdf1cf}.disruption{background:#f9dcd8}
table{border-collapse:collapse;margin:12px 0}th{text-align:left;padding:3px 24px 3px 0;color:#555}
li{margin:6px 0}small{color:#666}footer{max-width:860px;margin:0 auto 40px;color:#666}
a{color:#1d6a55}form{margin:12px 0}
</style></head><body>
<header><a class="name" href="/">Northfield</a>
{% for section in sections %}<a href="{% pageurl section %}">{{ section.title }}</a>{% endfor %}
<a href="/glossary/">Glossary</a>
{% if request.user.is_authenticated %}<a href="/admin/">Admin</a>{% endif %}</header>
{% for notice in notices %}<p class="notice {{ notice.level }}">{{ notice.text }}</p>{% endfor %}
<main>{% block content %}{% endblock %}</main>
<footer>{% with contact=settings.northfield.ContactDetails %}Northfield, {{ contact.address }} |
{{ contact.phone }} | {{ contact.email }} | {{ contact.hours }}{% endwith %}
{% if page.id and request.user.is_authenticated %}|
<a href="{% url 'wagtailadmin_pages:edit' page.id %}">Edit this page</a>{% endif %}</footer>
</body></html>"""
_LIST = """<ul>{% for one in children %}<li><a href="{% pageurl one %}">{{ one.title }}</a>
<br><small>{{ one.summary }}</small></li>{% endfor %}</ul>"""
_TOP = '{% extends "northfield/base.html" %}{% load wagtailcore_tags %}{% block content %}'
TEMPLATES = {
    "northfield/base.html": _BASE,
    "northfield/home.html": _TOP
    + "<h1>{{ page.title }}</h1><p>{{ page.intro }}</p><h2>Latest news</h2>"
    + _LIST.replace("children", "latest")
    + "{% endblock %}",
    "northfield/section.html": _TOP
    + "<h1>{{ page.title }}</h1><p>{{ page.intro }}</p>"
    + "{% with page.get_children.live.specific as children %}"
    + _LIST
    + "{% endwith %}{% endblock %}",
    "northfield/page.html": _TOP
    + "<h1>{{ page.title }}</h1><table>{% for name, value in page.rows %}"
    + "<tr><th>{{ name }}</th><td>{{ value }}</td></tr>{% endfor %}</table>"
    + "<p>{{ page.summary }}</p>{{ page.body|richtext }}{% endblock %}",
    "northfield/glossary.html": _TOP
    + "<h1>Glossary</h1><dl>{% for term in terms %}<dt><b>{{ term.word }}</b></dt>"
    + "<dd>{{ term.meaning }}</dd>{% endfor %}</dl>{% endblock %}",
}
"""The templates of the site, by name."""
