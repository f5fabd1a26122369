#!/usr/bin/env python3
"""Holds the names that docs/design/glossary.md settled: what was replaced does not come back, in code, file names, messages or documents.

Usage: tools/check_names.py [ROOT]      exit code 1 and a line for each finding
"""
import functools
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # PYTHONSAFEPATH and -P leave it out

import checks  # noqa: E402

# Identifiers that were replaced, and by what. Whole words, in files of every kind.
IDENTIFIERS = {
    "JobRequests": "ControlPlaneRequests", "KeyDeclarations": "KeyInitializer", "CallName": "OperationLabels", "transport::Machine": "transport::StateMachine",
    "UpdatesAlone": "UpdateHasOnePush",
    "Door": "ConnectionMonitor", "LookAtDoor": "CheckConnections", "Inflow": "IngressLimiter", "InflowLimits": "IngressLimits",
    "CutStrangers": "CutUnauthenticated", "max_strangers": "max_unauthenticated", "DropStrangers": "DropWithoutSecret",
    "RunTurn": "RunOnce", "LeaveTurn": "UnlockLoop", "LookAround": "PollBusy", "Settle": "RebuildPollSet", "OnRest": "OnBurstEnd",
    "helping_": "caller_drives_", "HelpedLoop": "DrivenLoop", "Helped": "LoopDriver", "Traffic": "TrafficCounters",
    "LentFrame": "LeasedFrame", "SimLoan": "SimLease", "SimLent": "SimLeased",
    "LeaseBoard": "LeaseReturns", "TakeBack": "RestoreOwnBuffer", "BringHome": "CopyToOwnBuffer", "SideBySide": "ContiguousView", "ThisProcess": "ForkGuard",
    "Handover": "CallBatch", "HandOver": "Submit", "CopyAround": "NonTemporalCopy", "kCachedBytes": "kCacheBytes", "cached_bytes": "cache_bytes",
    "CompletesOnce": "ScopedCompleter", "CompleteUnasked": "CompleteAbandoned",
    "OfKey": "PerKeyOp", "OfKeys": "PerKeyOps", "OneEach": "SplitPerKey", "PartFlow": "PartSequencer", "NextLane": "PickLane",
    "AddWindowPull": "AddHorizonProbe", "AddVersionPull": "AddVersionProbe", "WindowIndex": "RoundHorizonIndex",
    "min_round": "min_version", "asked_version": "requested_version",
    "BundleArgs": "SmallKeyBatch", "PushArgs": "Operation", "PullArgs": "Operation", "SmallKeyBatchArgs": "Operation", "PushRowsArgs": "Operation",
    "PullRowsArgs": "Operation", "SetArgs": "Operation", "StoreRowsArgs": "Operation", "OpenBundle": "OpenBatch", "ReadyExecutor": "DependencyExecutor", "Pace": "IssueThrottle",
    "Tally": "ShardCounters", "words_to_waiters": "status_updates", "next_word": "next_status_at", "TellWaiters": "StatusUpdates",
    "BarrierWaiting": "StillWaiting", "AddWaiter": "AddPending", "AnswerWaiters": "AnswerReady", "UpdateQueue::State": "Progress", "Shard::Closing": "ShardPart::closed",
    "server/aggregate/part.h": "server/keys/shard_part.h", "KeepSync": "AdmitSync", "KeepAsync": "AdmitAsync",
    "BuryTheSilent": "ExpireSilent", "FindHeir": "FindSuccessor", "TakeHopeless": "TakeUnsatisfiable", "SendAway": "RejectStale", "SeeServers": "PingServers",
    "SayGoodbye": "SendLeave", "IsMissed": "IsRegistered", "wished_rank": "requested_rank", "HostWishes": "HostPreferences", "Wish": "StopRequest",
    "WhyInvalid": "InvalidReason", "WhyNot": "ImpossibleReason", "WhyUnfit": "MismatchReason", "WhyVain": "UnsatisfiableReason",
    "Adopter": "BufferSlot", "AdopterOf": "BufferSlotOf", "known_version": "version", "lowest_version": "version", "IsValid2Bit": "HasOnly2BitCodes",
    "IsValid1Bit": "HasOnly1BitCodes", "IsValidTopK": "HasAscendingPlaces", "Wishes": "GuardRequests",
    "RequireSound": "RequireValid", "RefuseNoArray": "ThrowNoArray", "RefuseToJoin": "RejectJoin", "LandKept": "DeliverKept", "kLand": "kDeliver", "EachAlone": "OneArrayPerKey",
}
# The pause between two reports of one wait.
GPU_SUITE = ["tools/gpu_suite.py", "tests/tools/test_gpu_suite.py", "docs/gpu.md"]  # packs programs for another machine
ALLOWED = {"bundle": GPU_SUITE, "bundled": GPU_SUITE, "Bundle": GPU_SUITE, "Pace": ["src/kvstore/membership/wait_reports.h", "src/kvstore/membership/wait_reports.cc"]}

# Metaphors for which there is a term, in any case, also with an "s": words of comments, messages, documents and file names, and parts of identifiers.
WORDS = {
    "stranger": "unauthenticated, or unknown sender", "guest": "peer", "door": "rendezvous", "knock": "request", "lodging": "adoption",
    "adopter": "buffer slot", "handover": "batch, or submit", "bundle": "batch", "goodbye": "leave message", "heir": "successor",
    "hopeless": "unsatisfiable", "lender": "owner", "borrower": "lease holder", "loan": "lease", "lend": "lease", "lent": "leased",
    "lending": "leasing", "borrow": "lease", "borrowed": "leased", "borrowing": "leasing", "bundled": "batched", "knocking": "requesting", "wish": "request", "wishes": "requests", "wished": "requested", "inflow": "ingress",
    "board": "lease returns", "tally": "counters",
}

# Ordinary words that were names of functions or types: in C++, they are no names again.
NAMES = {
    "Hear": "DispatchReady", "Help": "DriveUntil", "Give": "Submit", "Ended": "EventCompleter", "Completes": "EventCompleter", "Tell": "QueueCallback",
    "Separate": "SplitPerKey", "Together": "BatchScope", "Places": "PartOpArray", "IsValid": "Validate...", "TakeBacks": "RestoreOwnBuffer",
    "Own": "ToOwned", "Home": "RestoreOwnBuffer", "Lodgings": "AdoptionBudget", "Refuse": "Validate... or Require...; Reject or SendError where a peer is told",
}

FOREIGN = ["ROUTER_HANDOVER", "SocketsPerBoard", "Boards="]  # ZeroMQ's and Slurm's

IDENTIFIER = re.compile(r"[A-Za-z]\w*")
NAMED = re.compile(rf"\b(?P<function>{'|'.join(NAMES)})\s*\(|\b(?:class|struct|enum|using)\s+(?P<type>{'|'.join(NAMES)})\b")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # also of CamelCase and snake_case

SUFFIXES = {".cc", ".h", ".cu", ".cuh", ".py", ".md", ".proto", ".txt", ".cmake", ".sh", ".supp", ".textproto"}
OWN = {"tools/check_names.py", "tests/tools/test_check_names.py"}


def files(root):
    """Tracked files, and untracked ones that git does not ignore; all of a folder that is no repository."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return [name for name in names if (root / name).is_file() and name not in OWN]


def words_of(identifier):
    """HTTPDoor, a_door and theDoors have the word "door" or "doors"; doorstep is another word."""
    return tuple(match[0] for match in WORD.finditer(identifier))


def lower(words):
    return tuple(word.lower() for word in words)


# Names of several words are found in longer names too: BuryTheSilentOnes, max_asked_version. These few are ordinary in them.
ORDINARY = {"OfKey", "OfKeys", "EachAlone", "ThisProcess"}
PATHS = [name for name in IDENTIFIERS if not name.replace("_", "").isalnum()]  # with "::" or "/"
PARTS = {lower(words_of(name)): name for name in IDENTIFIERS if len(words_of(name)) > 1 and name not in ORDINARY and name not in PATHS}
LONGEST = max(map(len, PARTS))


@functools.cache
def replaced_in(identifier):
    """(what was replaced, its term) for each name and word in an identifier or a word of a text."""
    if identifier in IDENTIFIERS:
        return [(identifier, IDENTIFIERS[identifier])]
    words = words_of(identifier)
    found = [(word, WORDS[key]) for word in words for key in (word.lower(), word.lower().removesuffix("s")) if key in WORDS]
    singular = (*words[:-1], words[-1].removesuffix("s")) if words else ()
    spans = {lower(of[first:last]) for of in (words, singular) for first in range(len(of)) for last in range(first + 2, min(first + LONGEST, len(of)) + 1)}
    return found + [(PARTS[span], IDENTIFIERS[PARTS[span]]) for span in sorted(spans) if span in PARTS]


def replaced(text):
    for match in IDENTIFIER.finditer(text):
        yield from replaced_in(match[0])
    yield from ((name, IDENTIFIERS[name]) for name in PATHS if name in text)


def named(line):
    for match in NAMED.finditer(re.sub(r'//.*|"(?:[^"\\]|\\.)*"', "", line)):
        name = match["function"] or match["type"]
        yield name, NAMES[name]


def findings(root):
    found = []
    for name in files(root):
        found += [f"{name}: the file's name has '{old}'; the term is {term}" for old, term in replaced(name)]
        if pathlib.PurePath(name).suffix not in SUFFIXES:
            continue
        for number, line in enumerate((root / name).read_text(encoding="utf-8").splitlines(), 1):
            for foreign in FOREIGN:
                line = line.replace(foreign, "")
            found += [f"{name}:{number}: '{old}': the term is {term}" for old, term in replaced(line) if name not in ALLOWED.get(old, [])]
            if name.endswith((".cc", ".h", ".cu", ".cuh")):
                found += [f"{name}:{number}: '{old}': the term is {term}" for old, term in named(line)]
    return found


def main(arguments):
    found = findings(checks.root_of(__doc__, arguments))
    for line in found:
        print(line)
    print(f"check_names: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
