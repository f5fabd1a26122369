"""What a training step takes on links of a given rate, from what it computes and what it sends: no figure is fitted."""
PART, MOST = 128 << 10, 1 << 20  # bytes that travel as one at least and at most: src/kvstore/plan/placement.h


def part_of(slice_bytes):
    """What travels as one of what a server has of a key."""
    return int(min(slice_bytes, max(slice_bytes / 4, PART), MOST))


class Profile:
    """A step that waits for nothing, in ms. By key, first layers first: its bytes, when forward comes to it, how long before
    backward ends its gradient is written. `length`: until backward ends; `latency`: of a key without bytes, there and back."""

    def __init__(self, sizes, forward, before_end, length, latency):
        self.sizes, self.forward, self.length, self.latency = sizes, forward, length, latency
        self.written = [length - each for each in before_end]


def parts_of(size, part=PART):
    return [min(part, size - done) for done in range(0, size, part)]


def exchange(sizes, ready, share, rate, latency, part_bytes=PART, by_urgency=True, pull_share=1.0):
    """When the weights are back. The most urgent gradient that is ready leaves next, or, not by urgency, the one that was first; a
    part that has arrived is given back at once, in the other direction. `rate` is in bytes a ms, `share` and `pull_share` the
    parts of the bytes that pushes and values keep."""
    waiting = [(key, part) for key, size in enumerate(sizes) for part in parts_of(size, part_bytes)]
    waiting.sort(key=lambda each: each[0] if by_urgency else (ready[each[0]], each[0]))
    up, down, back = 0.0, 0.0, [0.0] * len(sizes)
    while waiting:
        up = max(up, min(ready[key] for key, _ in waiting))
        key, part = next(each for each in waiting if ready[each[0]] <= up)
        waiting.remove((key, part))
        up += part * share / rate
        down = max(up, down) + part * pull_share / rate
        back[key] = down + latency
    return back


def step_ms(profile, rate, overlap, share=1.0, steps=20, part_bytes=PART, by_urgency=True, pull_share=1.0):
    """Returns the time of the last of so many steps."""
    begin, back = 0.0, [0.0] * len(profile.sizes)
    for _ in range(steps):
        if not overlap:
            ready = [begin + profile.length] * len(profile.sizes)
            back = exchange(profile.sizes, ready, share, rate, profile.latency, part_bytes, by_urgency, pull_share)
            last, begin = begin, max(back)
            continue
        late = 0.0
        for key, there in enumerate(back):
            late = max(late, there - begin - profile.forward[key])
        ready = [begin + late + written for written in profile.written]
        last, begin = begin, begin + late + profile.length
        back = exchange(profile.sizes, ready, share, rate, profile.latency, part_bytes, by_urgency, pull_share)
    return begin - last
