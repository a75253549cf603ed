"""`manage.py lessons`: check, translate and pack the lessons. `python -m engine lessons` is the same command."""

from __future__ import annotations

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from playground.learn import catalogue, pack, shelf


class Command(BaseCommand):
    help = "Check the lessons, pack them for a hall without a network, or compile the translations of their pages."

    def add_arguments(self, parser):
        parsers = parser.add_subparsers(dest="what", required=True, metavar="check|pack|translate")
        parsers.add_parser("check", help="name each mistake of the lessons, those of UCUTLASS_LESSONS included")
        packing = parsers.add_parser("pack", help="make one folder that runs a room without a network")
        packing.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new or an empty folder")
        packing.add_argument("--wheels", action="store_true", help="fetch the Python packages too, from the network")
        parsers.add_parser("translate", help="compile playground/*/locale/*/LC_MESSAGES/django.po")

    def handle(self, *args, what: str, **options):
        getattr(self, f"lessons_{what}")(**options)

    def lessons_check(self, **options):
        rows = shelf.mistakes()
        for line in shelf.mistaken_lines():
            self.stdout.write(line)
        if rows:
            raise CommandError(f"{sum(map(len, rows.values()))} mistakes in {len(rows)} files")
        self.stdout.write(f"{len(shelf.library())} lessons without a mistake")

    def lessons_translate(self, **options):
        for path in catalogue.compile_all():
            self.stdout.write(f"wrote {path}")

    def lessons_pack(self, out: Path, wheels: bool = False, **options):
        try:
            packed = pack.pack(out, wheels=wheels)
        except pack.PackError as e:
            raise CommandError(str(e)) from None
        self.stdout.write(packed)
