#!/usr/bin/env python3
"""Holds the names that docs/design/glossary.md settled: what was replaced does not come back, in code, file names, messages or documents.

Usage: tools/check_names.py [ROOT]      exit code 1 and a line for each finding
"""
import pathlib
import re
import subprocess
import sys

# Identifiers that were replaced, and by what. Whole words, in files of every kind.
IDENTIFIERS = {
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
    "BarrierWaiting": "StillWaiting", "AddWaiter": "AddPending", "AnswerWaiters": "AnswerReady", "UpdateQueue::State": "Progress", "Shard::Closing": "ClosingRound",
    "server/aggregate/part.h": "server/keys/shard_part.h", "KeepSync": "AdmitSync", "KeepAsync": "AdmitAsync",
    "BuryTheSilent": "ExpireSilent", "FindHeir": "FindSuccessor", "TakeHopeless": "TakeUnsatisfiable", "SendAway": "RejectStale", "SeeServers": "PingServers",
    "SayGoodbye": "SendLeave", "IsMissed": "IsRegistered", "wished_rank": "requested_rank", "HostWishes": "HostPreferences", "Wish": "StopRequest",
    "WhyInvalid": "InvalidReason", "WhyNot": "ImpossibleReason", "WhyUnfit": "MismatchReason", "WhyVain": "UnsatisfiableReason",
    "RequireSound": "RequireValid", "RefuseNoArray": "ThrowNoArray", "LandKept": "DeliverKept", "kLand": "kDeliver", "EachAlone": "OneArrayPerKey",
}
# The pause between two reports of one wait.
ALLOWED = {"Pace": ["src/kvstore/membership/wait_reports.h", "src/kvstore/membership/wait_reports.cc"]}

# Metaphors for which there is a term, in any case: words of comments, messages, documents and file names.
WORDS = {
    "stranger": "unauthenticated, or unknown sender", "guest": "peer", "knock": "request", "lodging": "adoption", "handover": "batch, or submit",
    "goodbye": "leave message", "heir": "successor", "hopeless": "unsatisfiable", "lender": "owner", "borrower": "lease holder", "loan": "lease",
}

FOREIGN = ["ROUTER_HANDOVER"]  # ZeroMQ's

SUFFIXES = {".cc", ".h", ".py", ".md", ".proto", ".txt", ".cmake", ".sh", ".supp", ".textproto"}
OWN = {"tools/check_names.py", "tests/tools/test_check_names.py"}


def files(root):
    """Tracked files, and untracked ones that git does not ignore; all of a folder that is no repository."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return [name for name in names if (root / name).is_file() and name not in OWN]


def findings(root):
    identifiers = re.compile(r"(?<!\w)(" + "|".join(map(re.escape, IDENTIFIERS)) + r")(?!\w)")
    words = re.compile(r"(?<![A-Za-z])(" + "|".join(WORDS) + r")(s?)(?![A-Za-z])", re.IGNORECASE)
    found = []
    for name in files(root):
        for match in words.finditer(name.replace("_", " ")):
            found.append(f"{name}: the file's name has '{match[0]}'; the term is {WORDS[match[1].lower()]}")
        if pathlib.PurePath(name).suffix not in SUFFIXES:
            continue
        for number, line in enumerate((root / name).read_text(encoding="utf-8").splitlines(), 1):
            for foreign in FOREIGN:
                line = line.replace(foreign, "")
            for match in identifiers.finditer(line):
                if name not in ALLOWED.get(match[1], []):
                    found.append(f"{name}:{number}: {match[1]} is {IDENTIFIERS[match[1]]}")
            for match in words.finditer(line):
                found.append(f"{name}:{number}: '{match[0]}': the term is {WORDS[match[1].lower()]}")
    return found


def main(arguments):
    found = findings(pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parents[1])
    for line in found:
        print(line)
    print(f"check_names: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
