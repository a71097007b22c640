"""The folder of a cluster: one user at a time, and nothing is touched that was not made here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from minikafka.broker.up.folder import Folder, default_folder
from minikafka.broker.up.plan import UpError


def fill(folder: Folder) -> None:
    for name in ("zookeeper/node-1/data", "broker-1/orders-0", "broker-12"):
        (folder.path / name).mkdir(parents=True)
        (folder.path / name / "file").touch()
    folder.properties(1).touch()


def test_a_folder_of_its_own_for_each_port(tmp_path: Path) -> None:
    assert default_folder({"XDG_DATA_HOME": str(tmp_path)}, 9092) == tmp_path / "minikafka" / "port-9092"
    assert default_folder({}, 1) == Path.home() / ".local" / "share" / "minikafka" / "port-1"


def test_everything_is_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "new" / "data")
    with folder.held(1, fresh=False):
        fill(folder)
    with folder.held(1, fresh=False):
        assert (folder.log_dir(1) / "orders-0" / "file").exists()


def test_fresh_removes_what_is_ours_and_nothing_else(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (tmp_path / "broker-notes").mkdir()
    (tmp_path / "mine.txt").touch()
    elsewhere = tmp_path / "mine"
    elsewhere.mkdir()
    with folder.held(1, fresh=False):
        fill(folder)
        folder.log_dir(2).symlink_to(elsewhere)
        (elsewhere / "kept").touch()
    with folder.held(1, fresh=True):
        assert sorted(each.name for each in tmp_path.iterdir()) == [".minikafka-up", "broker-notes", "mine", "mine.txt"]
        assert (elsewhere / "kept").exists()


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", ["broker-1", "zookeeper", "broker-3.properties", "cluster.json"])
def test_what_somebody_else_has_made_is_left_alone(tmp_path: Path, fresh: bool, name: str) -> None:
    (tmp_path / name).mkdir()
    with (
        pytest.raises(UpError, match=f"{name} is there and was not made by minikafka up"),
        Folder(tmp_path).held(1, fresh=fresh),
    ):
        pass
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_one_user_at_a_time(tmp_path: Path) -> None:
    with Folder(tmp_path).held(1, fresh=False):
        fill(Folder(tmp_path))
        with pytest.raises(UpError, match="is in use by another minikafka up"), Folder(tmp_path).held(1, fresh=True):
            pass
        assert Folder(tmp_path).log_dir(1).exists()
    with Folder(tmp_path).held(1, fresh=False):
        pass


def test_another_number_of_zookeeper_nodes_would_lose_everything(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.held(1, fresh=False):
        pass
    with (
        pytest.raises(UpError, match="was made with --zookeeper-nodes 1: use that, or --fresh"),
        folder.held(3, fresh=False),
    ):
        pass
    with folder.held(0, fresh=False):
        pass
    with folder.held(3, fresh=True):
        pass
    with folder.held(3, fresh=False):
        pass


def test_cluster_json_is_there_while_the_cluster_runs(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.held(1, fresh=False):
        folder.write_cluster({"brokers": []})
        assert json.loads((tmp_path / "cluster.json").read_text()) == {"brokers": []}
    assert not (tmp_path / "cluster.json").exists()


def test_cluster_json_of_a_cluster_that_was_killed_is_removed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.held(1, fresh=False):
        pass
    (tmp_path / "cluster.json").touch()
    with folder.held(1, fresh=False):
        assert not (tmp_path / "cluster.json").exists()


def test_where_brokers_listened_the_last_time(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.last_ports() == []
    for number, text in ((1, "listeners=PLAINTEXT://127.0.0.1:1234\n"), (2, "x=y\nlisteners=A://h:5\n"), (3, "z")):
        folder.properties(number).write_text(text)
    assert folder.last_ports() == [1234, 5]


def test_a_damaged_marker_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".minikafka-up").write_bytes(b"\x00[")
    with Folder(tmp_path).held(3, fresh=False):
        pass


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UpError, match="file"), Folder(tmp_path / "file" / "data").held(1, fresh=False):
        pass
    with pytest.raises(UpError, match="has a comma in it"):
        Folder(tmp_path / "a,b")


def test_a_relative_path_is_one_of_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Folder(Path("data")).path == Path(os.getcwd()) / "data"
