#!/usr/bin/env python3
"""The moment of a local date and time, as RFC 3339. Standard library only; Python 3.9 or newer.

    python3 due_at.py ZONE YYYY-MM-DD HH:MM

The moment goes to standard output, what is odd about it to standard error.
"""

import sys
from datetime import datetime, timezone
from zoneinfo import ZoneInfo


def due_at(local, zone):
    """The moment at which clocks in `zone` show `local`, and what is odd about it.

    Of a time that comes twice it is the first; for one that is left out, the moment when it would
    have come: clocks show an hour more by then.
    """
    there = local.replace(tzinfo=zone, fold=0)
    moment = there.astimezone(timezone.utc)
    shown = moment.astimezone(zone)
    if shown.replace(tzinfo=None) != local:
        return shown, "clocks leave this time out; they show a later one"
    if there.utcoffset() != there.replace(fold=1).utcoffset():
        return shown, "clocks show this time twice; this is the first"
    return shown, None


def main():
    zone, date, clock = sys.argv[1:]
    moment, odd = due_at(datetime.fromisoformat(f"{date}T{clock}"), ZoneInfo(zone))
    print(moment.isoformat())
    if odd:
        print(odd, file=sys.stderr)


if __name__ == "__main__":
    main()
