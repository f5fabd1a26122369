"""Constants fitted to the rounds that tools/bench_scale.py measures: what tools/scale_model.py takes from elsewhere, or leaves out."""
import math

import scale_model


def least_squares(features, values):
    """The coefficients of the sums of features that come closest to the values, by the sum of squared relative errors."""
    rows = [[each / value for each in row] for row, value in zip(features, values)]
    count = len(rows[0])
    system = [[sum(row[i] * row[j] for row in rows) for j in range(count)] + [sum(row[i] for row in rows)] for i in range(count)]
    for i in range(count):  # normal equations, by elimination
        pivot = max(range(i, count), key=lambda r: abs(system[r][i]))
        system[i], system[pivot] = system[pivot], system[i]
        if system[i][i] == 0:
            raise ValueError("these measurements do not tell the constants apart")
        for r in range(count):
            if r != i:
                by = system[r][i] / system[i][i]
                system[r] = [a - by * b for a, b in zip(system[r], system[i])]
    return [system[i][count] / system[i][i] for i in range(count)]


def predicted(coefficients, row):
    return sum(a * b for a, b in zip(coefficients, row))


def error(features, values, coefficients):
    """Relative, root of the mean square."""
    return math.sqrt(sum((predicted(coefficients, row) / value - 1) ** 2 for row, value in zip(features, values)) / len(values))


def of_links(job, sizes):
    """What a round's time on links is made of: T_link, and how long a byte of each further worker stands before a server's link."""
    return scale_model.network_seconds(job, sizes), (job.workers - 1) / job.rate


def of_cores(workers, servers, sizes):
    """What a round's core time, all processes together, is made of: ends of messages, and bytes at an end of a connection.

    Of a round's pushes the last one is acknowledged by its value."""
    reached = servers if len(sizes) > 1 else scale_model.placed(servers, tuple(sizes))[0][0]
    messages = (scale_model.MESSAGES * workers - 1) * scale_model.messages(reached, sum(sizes))
    return 2 * messages, 2 * 2 * workers * sum(sizes)
