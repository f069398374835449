"""Which engine a group is sent to, and how much is remembered of groups."""

from rl.policy.pool.routing import MOST_IDLE, Router

ENGINES = range(4)


def test_idle_groups_are_remembered_up_to_a_number_and_the_longest_idle_are_forgotten_first():
    router = Router(4)
    for number in range(3 * MOST_IDLE):  # as many are under way as a run of a thousand engines may have
        router.choose(f"busy-{number}/0", ENGINES)
    first = router.choose("first/0", ENGINES)
    router.release("first/0")
    for number in range(MOST_IDLE - 1):
        router.choose(f"{number}/0", ENGINES)
        router.release(f"{number}/0")
    router.num_sessions[first] += 10  # so that a new group would go elsewhere
    assert router.choose("first/1", ENGINES) == first
    router.release("first/1")  # now the one that has been idle for the shortest time
    router.choose("new/0", ENGINES)
    router.release("new/0")
    assert router.choose("first/2", ENGINES) == first
    assert "0" not in router._groups and "1" in router._groups
    assert len(router._groups) == 4 * MOST_IDLE


def test_what_is_under_way_is_counted_by_engine_and_moves_with_its_group():
    router = Router(2)
    assert [router.choose(f"a/{member}", {0, 1}) for member in range(3)] == [0, 0, 0]
    assert router.choose("b/0", {0, 1}) == 1
    assert router.num_sessions == [3, 1]
    assert router.release("a/1") == 0 and router.release("a/1") is None
    assert router.choose("a/0", {1}) == 1  # engine 0 has gone
    assert router.num_sessions == [0, 3] and router.num_moves == 1
