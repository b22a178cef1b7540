"""Tokens to text, one at a time, as a stream's reader wants them."""

from __future__ import annotations

from engine.text import StopScanner

PIECES = [" the", " quick", " brown", " fox", "\n"] * 200


class Stops:
    """A thousand pieces of text through a scanner for four stop strings."""

    version = "1"

    def setup(self) -> None:
        self.stops = ("</s>", "\n\nUser:", "END", "###")

    def time_scan_a_thousand_pieces(self) -> None:
        scanner = StopScanner(self.stops, include=False)
        for piece in PIECES:
            scanner.push(piece)
