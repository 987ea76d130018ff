"""What a frame shows, in what the document around it shows."""

from webtraj.environments.browser.foreign_frames import merge_frame


def test_a_frame_s_passwords_are_the_page_s():
    seen = {
        "axtree": "[1] iframe",
        "passwords": {"refs": ["2"], "boxes": [], "values": [], "focused": False},
    }
    inside = {
        "axtree": "",
        "passwords": {
            "refs": ["f1e1"],
            "boxes": [[1, 2, 3, 4]],
            "values": ["hunter2"],
            "focused": True,
        },
    }
    merge_frame(
        seen, {"ref": "1", "line": 0, "depth": 0, "matrix": [1, 0, 0, 0, 1, 0, 10, 20, 1]}, inside
    )
    assert seen["passwords"] == {
        "refs": ["2", "f1e1"],
        "boxes": [[11, 22, 3, 4]],
        "values": ["hunter2"],
        "focused": True,
    }


def test_lines_come_after_the_frame_s_line_one_deeper():
    seen = {"axtree": '[1] main\n  [2] iframe "Bank"\n[3] link "Help"'}
    place = {"ref": "2", "line": 1, "depth": 1, "matrix": [1, 0, 0, 0, 1, 0, 0, 0, 1]}
    merge_frame(seen, place, {"axtree": '[f1e1] form\n  [f1e2] button "Pay"'})
    assert seen["axtree"].splitlines() == [
        "[1] main",
        '  [2] iframe "Bank"',
        "    [f1e1] form",
        '      [f1e2] button "Pay"',
        '[3] link "Help"',
    ]


def test_boxes_of_a_frame_outside_the_viewport_are_left_out():
    seen = {"axtree": "[1] iframe", "boxes": {"refs": [], "boxes": []}}
    inside = {"axtree": "", "boxes": {"refs": ["f1e1"], "boxes": [[0, 0, 5, 5]]}}
    merge_frame(
        seen, {"ref": "1", "line": 0, "depth": 0, "matrix": [1, 0, 0, 0, 1, 0, 0, 9000, 1]}, inside
    )
    assert seen["boxes"] == {"refs": [], "boxes": []}
