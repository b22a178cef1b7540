"""The one function that names processes: for `ps`, log lines, thread names and metric labels."""

from __future__ import annotations

from msgspec import Struct


class Role(Struct, frozen=True):
    """What a process does: kind is launcher, api, core, worker, batch or embedded; the indices say which one."""

    kind: str
    api: int | None = None
    dp: int | None = None
    tp: int | None = None


def name_of(role: Role) -> str:
    """`core[dp0]`, `worker[dp0 tp1]`, `api[0]`, `launcher`."""
    if role.api is not None:
        return f"{role.kind}[{role.api}]"
    ranks = [f"{name}{rank}" for name, rank in (("dp", role.dp), ("tp", role.tp)) if rank is not None]
    return f"{role.kind}[{' '.join(ranks)}]" if ranks else role.kind


def title_of(role: Role) -> str:
    """What `ps` shows."""
    return f"enginewright: {name_of(role)}"
