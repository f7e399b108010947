"""Compiled programs are read right: figures counted by hand, and those of programs that XLA has just compiled."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks.compiled import hlo

TEXT = """HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[4096,3]{0,1:T(4,128)})->f32[4096,3]}

%fused (p: f32[4096,3], i: s32[8]) -> f32[4096,3] {
  %p = f32[4096,3]{0,1:T(4,128)} parameter(0)
  %i = s32[8]{0:T(128)} parameter(1)
  %g = f32[8,3]{0,1:T(4,128)} gather(%p, %i), offset_dims={1}, slice_sizes={1,3}
  ROOT %a = f32[4096,3]{0,1:T(4,128)} add(%p, %p)
}

%body (t: (s32[], f32[4096,3], s32[8])) -> (s32[], f32[4096,3], s32[8]) {
  %t = (s32[]{:T(128)}, f32[4096,3]{0,1:T(4,128)}, s32[8]{0:T(128)}) parameter(0)
  %n = s32[]{:T(128)} get-tuple-element(%t), index=0
  %x = f32[4096,3]{0,1:T(4,128)} get-tuple-element(%t), index=1
  %j = s32[8]{0:T(128)} get-tuple-element(%t), index=2
  %f = f32[4096,3]{0,1:T(4,128)} fusion(%x, %j), kind=kLoop, calls=%fused, metadata={op_name="add (of two)"}
  %c = f32[4096,3]{0,1:T(4,128)} copy(%f)
  ROOT %r = (s32[]{:T(128)}, f32[4096,3]{0,1:T(4,128)}, s32[8]{0:T(128)}) tuple(%n, %c, %j)
}

%condition (t.1: (s32[], f32[4096,3], s32[8])) -> pred[] {
  %limit = s32[]{:T(128)} constant(64)
  %t.1 = (s32[]{:T(128)}, f32[4096,3]{0,1:T(4,128)}, s32[8]{0:T(128)}) parameter(0)
  %m = s32[]{:T(128)} get-tuple-element(%t.1), index=0
  ROOT %lt = pred[]{:T(512)} compare(%m, %limit), direction=LT
}

ENTRY %main (q: (s32[], f32[4096,3], s32[8])) -> (s32[], f32[4096,3], s32[8]) {
  %q = (s32[]{:T(128)}, f32[4096,3]{0,1:T(4,128)}, s32[8]{0:T(128)}) parameter(0)
  ROOT %w = (s32[]{:T(128)}, f32[4096,3]{0,1:T(4,128)}, s32[8]{0:T(128)}) while(%q), condition=%condition, body=%body
}
"""
ROWS, INDEX = 4096 * 3 * 4, 8 * 4
PADDED_ROWS, PADDED_INDEX = 4096 * 4 * 4, 128 * 4  # three rows of 4096 fill a tile of four; eight numbers one of 128


def test_kernels_bytes_and_operations_of_a_program_counted_by_hand():
    program = hlo.Program(TEXT)
    step = program.cost(program.loop_body(64))
    assert step.kernels == 2
    padded = 2 * PADDED_ROWS + PADDED_INDEX + 2 * PADDED_ROWS
    assert step.moved == (2 * ROWS + INDEX + 2 * ROWS, padded, padded)
    assert step.operations == {"gather": 1, "scatter": 0, "sort": 0, "copy": 1, "transpose": 0}
    whole = program.cost(program.entry)
    assert (whole.kernels, whole.loops) == (128, 1)
    assert whole.moved.logical == 64 * step.moved.logical
    with pytest.raises(ValueError, match="no loop of 65 trips"):
        program.loop_body(65)


def test_what_stays_on_the_chip_does_not_count_as_off_it():
    # The fusion's result stays on the chip; what it reads, and what is copied, does not.
    program = hlo.Program(TEXT.replace("%f = f32[4096,3]{0,1:T(4,128)}", "%f = f32[4096,3]{0,1:T(4,128)S(1)}"))
    step = program.cost(program.loop_body(64))
    assert step.moved.padded - step.moved.off_chip == 2 * PADDED_ROWS  # written once, and read once
    assert step.moved.off_chip == 2 * PADDED_ROWS + PADDED_INDEX


def test_parts_of_an_array_lie_where_it_lies():
    text = """ENTRY %main (p: f32[100,3]) -> f32[1,3] {
  %p = f32[100,3] parameter(0)
  %q = f32[100,3]{1,0:S(1)} parameter(1)
  %i = s32[]{:S(2)} constant(7)
  %d = f32[1,3]{1,0:S(1)} dynamic-slice(%p, %i, %i), dynamic_slice_sizes={1,3}
  %e = f32[1,3] dynamic-slice(%q, %i, %i), dynamic_slice_sizes={1,3}
  ROOT %u = f32[100,3] dynamic-update-slice(%p, %d, %i, %i)
}
"""
    program = hlo.Program(text)
    assert program.cost(program.entry).moved.off_chip == 3 * (3 * 4)  # of p read, e written, of p written


def test_an_array_that_a_kernel_takes_parts_of_counts_by_these():
    taken = TEXT.replace("add(%p, %p)", "add(%g, %g)")
    program = hlo.Program(taken)
    assert program.cost(program.loop_body(64)).moved.logical == (8 * 3 * 4 + ROWS + INDEX) + 2 * ROWS
    alone = "ENTRY %main (p: f32[100,3]) -> f32[1,3] {\n  %p = f32[100,3] parameter(0)\n  %i = s32[] constant(7)\n"
    alone += "  ROOT %d = f32[1,3] dynamic-slice(%p, %i, %i), dynamic_slice_sizes={1,3}\n}\n"
    program = hlo.Program(alone)
    assert program.cost(program.entry).moved.logical == 3 * 4 + 3 * 4 + 4


def test_what_is_fetched_in_pieces_counts_once_read_and_once_written():
    text = """ENTRY %main (p: f32[4,100]) -> f32[4,60] {
  %p = f32[4,100] parameter(0)
  %s = ((f32[4,100]), f32[2,60], s32[]) slice-start(%p), slice={[0:2], [0:60]}
  %t = ((f32[4,100]), f32[2,60], s32[]) slice-start(%p), slice={[2:4], [0:60]}
  %a = f32[2,60] slice-done(%s)
  %b = f32[2,60] slice-done(%t)
  ROOT %c = f32[4,60] custom-call(%a, %b), custom_call_target="ConcatBitcast"
}
"""
    program = hlo.Program(text)
    cost = program.cost(program.entry)
    assert cost.kernels == 2
    assert cost.moved.logical == 2 * 2 * (2 * 60 * 4 + 4)  # with a flag each
    assert cost.moved.off_chip == cost.moved.logical / 2  # from one memory to another


@pytest.mark.parametrize("in_fusion", [False, True])
def test_an_array_that_a_kernel_changes_in_its_place_counts_by_what_is_written(in_fusion):
    parameters = "  %p = f32[100,3] parameter(0)\n  %u = f32[2,3] parameter(1)\n  %i = s32[] parameter(2)\n"
    update = "  ROOT %d = f32[100,3] dynamic-update-slice(%p, %u, %i, %i)\n}\n"
    text = "ENTRY %main (p: f32[100,3], u: f32[2,3], i: s32[]) -> f32[100,3] {\n" + parameters
    if in_fusion:
        call = "  ROOT %f = f32[100,3] fusion(%p, %u, %i), kind=kLoop, calls=%fused\n}\n"
        text = "%fused (p: f32[100,3], u: f32[2,3], i: s32[]) -> f32[100,3] {\n" + parameters + update + text + call
    else:
        text += update
    program = hlo.Program(text)
    assert program.cost(program.entry).moved.logical == 2 * (2 * 3 * 4) + 4


@pytest.mark.parametrize(
    ("shape", "logical", "padded", "off_chip"),
    [
        ("pred[7]{0}", 7, 7, 7),
        ("bf16[2,3]{1,0:T(8,128)(2,1)}", 12, 2 * 8 * 128, 2 * 8 * 128),
        ("(f32[2]{0}, s32[])", 12, 12, 12),
        ("f32[5,2,3]{0,2,1:T(4,128)S(1)}", 120, 4 * 2 * 4 * 128, 0),
        ("(f32[2]{0:S(1)}, f32[3]{0})", 20, 20, 12),
    ],
)
def test_bytes_of_shapes(shape, logical, padded, off_chip):
    assert hlo.bytes_of(shape) == (logical, padded, off_chip)


def test_collectives_count_as_often_as_they_run_and_once_for_start_and_end():
    reduced = TEXT.replace(
        "%c = f32[4096,3]{0,1:T(4,128)} copy(%f)",
        "%s = f32[4096,3]{0,1:T(4,128)} all-reduce-start(%f), replica_groups={{0,1}}, to_apply=%sum\n"
        "  %c = f32[4096,3]{0,1:T(4,128)} all-reduce-done(%s)",
    )
    program = hlo.Program(reduced)
    assert program.cost(program.entry).collectives == 64
    assert program.cost(program.loop_body(64)).collectives == 1
    assert hlo.Program(TEXT).cost("main").collectives == 0


def test_a_program_that_is_compiled_here():
    def run(x):
        return jax.lax.scan(lambda x, _: (jnp.sin(x) @ x, None), x, length=7)[0]

    program = hlo.Program(jax.jit(run).lower(jnp.ones((16, 16))).compile().as_text())
    step = program.cost(program.loop_body(7))
    assert step.kernels >= 2  # the sine and the product
    assert step.moved.logical >= 4 * 16 * 16 * 4
