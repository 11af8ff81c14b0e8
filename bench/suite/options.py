"""Sizes of a run, by environment: PARTS=create,exec ROUNDS=40 ... make bench."""
import dataclasses
import os

PARTS = ("create", "python", "exec", "files", "state", "storm", "sustained", "growth", "http",
         "egress", "e2b")


def numbers(name, otherwise):
    return [int(each) for each in os.environ.get(name, otherwise).split(",")]


@dataclasses.dataclass
class Options:
    parts: tuple
    rounds: int
    rival_rounds: int
    storm: int
    idle: list
    idle_seconds: int
    sustained_seconds: int
    growth: list
    growth_rounds: int
    history: int
    file_mib: int
    tries: int

    @staticmethod
    def from_environment():
        number = lambda name, otherwise: int(os.environ.get(name, otherwise))  # noqa: E731
        asked = tuple(part for part in os.environ.get("PARTS", "").split(",") if part)
        unknown = set(asked) - set(PARTS)
        if unknown:
            raise SystemExit(f"bench: there is no part {', '.join(sorted(unknown))}; "
                             f"there are {', '.join(PARTS)}")
        return Options(
            parts=asked or PARTS,
            rounds=number("ROUNDS", 100),
            rival_rounds=number("RIVAL_ROUNDS", 20),
            storm=number("STORM", 1000),
            idle=numbers("IDLE", "100,1000"),
            idle_seconds=number("IDLE_SECONDS", 30),
            sustained_seconds=number("SUSTAINED_SECONDS", 60),
            growth=numbers("GROWTH", "1,100,1000,5000"),
            growth_rounds=number("GROWTH_ROUNDS", 40),
            history=number("HISTORY", 100_000),
            file_mib=number("FILE_MIB", 1024),
            tries=number("TRIES", 3))
