#!/usr/bin/env python3
"""Images and what other programs make of them: Pillow decodes, PyTorch resizes.

    /usr/bin/python3 tests/golden/images/make_images.py

Needs python3-pil, python3-numpy and python3-torch. Every NAME.png or NAME.jpg gets a line in expected.txt:
file, height, width, channels, then the pixels. resized.txt has lines: height and width before, height and width after,
antialias (0 or 1), the values before, the values after.
"""
import pathlib
import struct
import zlib

import numpy
import torch
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
rng = numpy.random.default_rng(5)


def smooth(height, width, channels):
    """What JPEG keeps well: a few waves."""
    y, x = numpy.mgrid[0:height, 0:width].astype(float)
    planes = [127 + 60 * numpy.sin(x / 5 + c) + 60 * numpy.cos(y / 4 - 2 * c) for c in range(channels)]
    return numpy.clip(numpy.stack(planes, -1), 0, 255).astype(numpy.uint8)


def noise(height, width, channels):
    return rng.integers(0, 256, (height, width, channels), dtype=numpy.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def sixteen_bit_png(path, values):
    """Pillow writes no colour of 16 bits. values: [height, width, 3] of 0..65535."""
    height, width, _ = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def main():
    expected = {}

    def keep(name, array):
        expected[name] = array if array.ndim == 3 else array[..., None]

    def save(name, image, mode, **options):
        image.save(HERE / name, **options)
        keep(name, numpy.asarray(Image.open(HERE / name).convert(mode)))

    save("rgb.png", Image.fromarray(noise(7, 5, 3)), "RGB")
    save("grey.png", Image.fromarray(noise(4, 9, 1)[..., 0]), "L")
    save("bits.png", Image.fromarray(noise(6, 11, 1)[..., 0]).convert("1"), "L")
    save("palette.png", Image.fromarray(smooth(8, 8, 3)).convert("P", palette=Image.Palette.ADAPTIVE, colors=7), "RGB")
    rgba = Image.fromarray(noise(5, 6, 4), "RGBA")
    rgba.save(HERE / "alpha.png")
    keep("alpha.png", numpy.asarray(rgba)[..., :3])
    deep = rng.integers(0, 65536, (3, 4, 3))
    sixteen_bit_png(HERE / "deep.png", deep)
    keep("deep.png", numpy.rint(deep / 257).astype(numpy.uint8))
    save("rgb.jpg", Image.fromarray(smooth(19, 21, 3)), "RGB", quality=90)
    save("grey.jpg", Image.fromarray(smooth(16, 13, 1)[..., 0]), "L", quality=85)
    save("progressive.jpg", Image.fromarray(smooth(17, 18, 3)), "RGB", quality=80, progressive=True)
    Image.fromarray(smooth(8, 8, 4), "CMYK").save(HERE / "cmyk.jpg")
    with open(HERE / "expected.txt", "w", encoding="ascii") as file:
        for name, array in expected.items():
            print(name, *array.shape, *array.ravel(), file=file)

    with open(HERE / "resized.txt", "w", encoding="ascii") as file:
        for before, after in (((5, 7), (3, 4)), ((4, 4), (9, 6)), ((6, 3), (6, 3)), ((11, 10), (2, 13)), ((1, 1), (3, 2)),
                              ((8, 8), (1, 1))):
            for antialias in (False, True):
                values = torch.from_numpy(rng.random((1, 1, *before), dtype=numpy.float32))
                resized = torch.nn.functional.interpolate(values, after, mode="bilinear", align_corners=False,
                                                          antialias=antialias)
                numbers = [f"{v:.7g}" for tensor in (values, resized) for v in tensor.ravel().tolist()]
                print(*before, *after, int(antialias), *numbers, file=file)


if __name__ == "__main__":
    main()
