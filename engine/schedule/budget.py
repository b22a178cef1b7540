"""How many tokens one step may hold."""

from __future__ import annotations


class Budget:
    """Tokens left in this step. Whoever asks gets what is left: long prompts come in chunks for no other reason."""

    __slots__ = ("left",)

    def __init__(self, tokens: int) -> None:
        self.left = tokens

    @property
    def is_spent(self) -> bool:
        return self.left == 0

    def take(self, wanted: int) -> int:
        taken = wanted if wanted < self.left else self.left
        self.left -= taken
        return taken
