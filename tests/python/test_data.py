"""shoal.data: packing, reading, drawing samples."""
import numpy as np
import pytest
import shoal


@pytest.fixture
def packed(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_bytes(b"first = 1\n")
    (tmp_path / "src" / "b.py").write_bytes(b"second = 2\n")
    (tmp_path / "src" / "c.bin").write_bytes(b"\xff\xfe")
    report = shoal.data.pack(tmp_path / "out.tok", tmp_path / "src", suffixes=(".py",))
    assert report["files"] == 2 and report["tokens"] == 21 and report["dtype"] == "u16"
    return tmp_path / "out.tok"


def test_pack_and_read(packed):
    tokens = shoal.data.open(packed)
    assert tokens.packed and tokens.vocab == 256 and len(tokens) == 21
    assert repr(tokens) == f"<shoal.data.TokenFile {packed}: 21 tokens, u16, vocabulary of 256>"
    assert tokens[:].dtype == np.int32
    assert bytes(tokens[:].astype(np.uint8)) == b"first = 1\nsecond = 2\n"
    assert bytes(tokens[-3:].astype(np.uint8)) == b" 2\n"
    np.testing.assert_array_equal(tokens.read(10, 6), np.frombuffer(b"second", np.uint8))
    tokens.verify()


def test_text_is_bytes(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"\x01ab\xff")
    text = shoal.data.open(tmp_path / "t.txt")
    assert not text.packed
    assert text[:].tolist() == [1, 97, 98, 255]


def test_errors(packed, tmp_path):
    tokens = shoal.data.open(packed)
    for first, count in ((20, 2), (-1, 1), (0, -1), (2**62, 2**62)):
        with pytest.raises(shoal.DataError, match="out.tok: tokens"):
            tokens.read(first, count)
    with pytest.raises(ValueError, match="step 1"):
        tokens[::2]
    with pytest.raises(shoal.DataError, match="none.txt"):
        shoal.data.open(tmp_path / "none.txt")
    whole = packed.read_bytes()
    (tmp_path / "short.tok").write_bytes(whole[:-1])
    with pytest.raises(shoal.DataError, match="short.tok"):
        shoal.data.open(tmp_path / "short.tok")


def test_sampler_is_a_permutation_of_each_epoch():
    sampler = shoal.data.Sampler(samples=10, global_batch=4, seed=3)
    drawn = [s for batch in range(5) for s in sampler.samples(batch, 0, 4)]
    assert sorted(drawn[:10]) == sorted(drawn[10:]) == list(range(10))
    assert drawn[4:8] == sampler.samples(1, 0, 2) + sampler.samples(1, 2, 2)
    assert sampler.epoch(5) == 2.0
