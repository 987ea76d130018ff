"""Pickers of dates and times, and calendars."""

from __future__ import annotations

import datetime
import random
from typing import Final

from webtraj.environments.browser.oracles import click, fill, press, select
from webtraj_apps.widgets.environment import Goal, times, widget

MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


@widget(state="picker.selectedDates.map(day => flatpickr.formatDate(day, 'Y-m-d'))")
def flatpickr(rng: random.Random) -> Goal:
    """A calendar that turns months."""
    month, day = rng.randint(4, 6), rng.randint(1, 28)
    return Goal(
        f"Leave on {day} {MONTHS[month - 1]} 2026.",
        [f"2026-{month:02}-{day:02}"],
        click("#leave"),
        times(month - 3, click(".flatpickr-next-month")),
        click(".flatpickr-day:not(.prevMonthDay):not(.nextMonthDay)", str(day)),
    )


@widget(state="picker.selectedDates.map(day => flatpickr.formatDate(day, 'Y-m-d'))")
def flatpickr_range(rng: random.Random) -> Goal:
    """Two days in one field."""
    first = rng.randint(2, 20)
    last = first + rng.randint(2, 8)
    day = ".flatpickr-day:not(.prevMonthDay):not(.nextMonthDay)"
    return Goal(
        f"Book the hotel from {first} to {last} May 2026.",
        [f"2026-05-{first:02}", f"2026-05-{last:02}"],
        click("#stay"),
        click(day, str(first)),
        click(day, str(last)),
    )


@widget(state="picker.selectedDates.map(day => flatpickr.formatDate(day, 'H:i'))")
def flatpickr_time(rng: random.Random) -> Goal:
    """Hours and minutes."""
    hour, minute = rng.randint(6, 21), rng.choice((5, 20, 35, 50))
    return Goal(
        f"Set the reminder to {hour:02}:{minute:02}.",
        [f"{hour:02}:{minute:02}"],
        click("#at"),
        fill(".flatpickr-hour", f"{hour:02}"),
        fill(".flatpickr-minute", f"{minute:02}"),
        press(".flatpickr-minute", "Enter"),
    )


@widget(state="picker.toString()")
def pikaday(rng: random.Random) -> Goal:
    """A read-only field with a calendar."""
    day = rng.randint(1, 30)
    return Goal(
        rng.choice((f"Have it delivered on {day} April 2026.", f"Deliver on April {day}, 2026.")),
        f"{datetime.date(2026, 4, day):%a %b %d %Y}",
        click("#day"),
        click(".pika-day:not(.is-disabled)", str(day)),
    )


@widget(state="picker.getDate('yyyy-mm-dd')")
def vanillajs_datepicker(rng: random.Random) -> Goal:
    """A calendar that zooms out to months."""
    month, day = rng.randint(1, 12), rng.randint(1, 28)
    return Goal(
        f"Make the appointment for {day} {MONTHS[month - 1]} 2026.",
        f"2026-{month:02}-{day:02}",
        click("#day"),
        click(".datepicker .view-switch"),
        click(".datepicker-cell.month", MONTHS[month - 1][:3]),
        click(".datepicker-cell.day:not(.prev):not(.next)", str(day)),
    )


@widget(state="picker.selectedDates.map(day => day.getDate()).sort((a, b) => a - b)")
def air_datepicker(rng: random.Random) -> Goal:
    """Several days in a calendar of its own."""
    days = sorted(rng.sample(range(1, 32), 3))
    return Goal(
        f"Close the shop on {days[0]}, {days[1]} and {days[2]} July 2026.",
        days,
        [click(".air-datepicker-cell.-day-:not(.-other-month-)", str(day)) for day in days],
    )


@widget(state="[picker.getStartDate(), picker.getEndDate()].map(day => day.format('YYYY-MM-DD'))")
def litepicker(rng: random.Random) -> Goal:
    """Two months side by side."""
    first = rng.randint(5, 18)
    last = first + rng.randint(1, 9)
    return Goal(
        f"Pick the car up on {first} October 2026 and return it on {last} October.",
        [f"2026-10-{first:02}", f"2026-10-{last:02}"],
        click("#dates"),
        click(".day-item", str(first)),
        click(".day-item", str(last)),
    )


@widget(state="$('#birthday').datepicker('getDate')?.toDateString()")
def jquery_ui_datepicker(rng: random.Random) -> Goal:
    """A calendar with lists of years and months."""
    year, month, day = rng.randint(1965, 1999), rng.randint(1, 12), 13
    return Goal(
        f"You were born on {day} {MONTHS[month - 1]} {year}. Choose it in the calendar.",
        f"{datetime.date(year, month, day):%a %b %d %Y}",
        click("#birthday"),
        select(".ui-datepicker-year", str(year)),
        select(".ui-datepicker-month", MONTHS[month - 1][:3]),
        click(".ui-datepicker-calendar a", str(day)),
    )


@widget(
    state="['startDate', 'endDate']"
    ".map(end => $('#period').data('daterangepicker')[end].format('YYYY-MM-DD'))"
)
def daterangepicker(rng: random.Random) -> Goal:
    """A range that is applied."""
    first, last = rng.randint(2, 14), rng.randint(15, 27)
    day = ".drp-calendar.left td.available:not(.off)"
    return Goal(
        f"Show the report from {first} to {last} February 2026.",
        [f"2026-02-{first:02}", f"2026-02-{last:02}"],
        click("#period"),
        click(day, str(first)),
        click(day, str(last)),
        click(".applyBtn"),
    )


@widget(state="$('#wake').timepicker('getSecondsFromMidnight')")
def timepicker(rng: random.Random) -> Goal:
    """A list of times."""
    hour, minute = rng.randint(5, 9), rng.choice((0, 30))
    return Goal(
        f"Set the alarm to {hour:02}:{minute:02}.",
        hour * 3600 + minute * 60,
        click("#wake"),
        click(".ui-timepicker-list li", f"{hour:02}:{minute:02}"),
    )


@widget(state="picker.getDate()?.toDateString()")
def tui_date_picker(rng: random.Random) -> Goal:
    """A calendar below its field."""
    day = rng.randint(2, 30)
    return Goal(
        f"The invoice is due on {day} November 2026. Choose that day.",
        f"{datetime.date(2026, 11, day):%a %b %d %Y}",
        click("#due"),
        click(".tui-calendar-date:not(.tui-calendar-prev-month)", str(day)),
    )


@widget(state="calendar.getEvents().map(event => event.startStr).sort()")
def fullcalendar(rng: random.Random) -> Goal:
    """A month of events."""
    month, days = rng.choice((3, 4)), sorted(rng.sample(range(1, 31), 2))
    dates = [f"2026-{month:02}-{day:02}" for day in days]
    return Goal(
        f"Add your shifts on {days[0]} and {days[1]} {MONTHS[month - 1]} 2026.",
        dates,
        times(month - 3, click(".fc-next-button")),
        [click(f"td[data-date='{date}']") for date in dates],
    )
