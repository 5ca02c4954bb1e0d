# SPDX-License-Identifier: Apache-2.0
"""A target that is not reached in time is given up, aloud; and work resumes when told to."""

import datetime
import random
import subprocess
import sys

from etcdclusters import Writer
from rig import images, tools
from rig.wait import until


def given_up(etcd, reason):
    """Both conditions say so, and nothing of it is temporary."""
    found = [etcd.condition(kind) for kind in ("Available", "Progressing")]
    return all(c["status"] == "False" and c["reason"] == reason for c in found)


def provide_image(cluster, version, directory):
    """Give every node an etcd under that version's name."""
    program = tools.binary("etcd-3.6", "etcd")
    words = [sys.executable, tools.REPOSITORY / "tools" / "image", f"--output={directory}/etcd.tar"]
    words += [f"--name={images.ETCD}:v{version}", "--cmd=/usr/local/bin/etcd"]
    subprocess.run([*words, f"{program}:/usr/local/bin/etcd:0755"], check=True)
    cluster.rig.load_image(directory / "etcd.tar")


def test_a_cluster_that_cannot_form_gives_up_and_goes_on_when_told(
    etcd, cluster, namespace, tmp_path
):
    version = f"3.6.{random.randrange(1000, 1000000)}"  # nobody has an image of it
    with Writer(etcd):
        etcd.create(1, version, progressDeadlineSeconds=5)
        until(lambda: given_up(etcd, "BootstrapFailed"), 30, "it is given up")
        (name,) = etcd.names()
        provide_image(cluster, version, tmp_path)
        cluster.delete_pod(namespace, name)  # the kubelet would try again later
        cluster.wait_ready(namespace, name)
        assert given_up(etcd, "BootstrapFailed")  # nothing new is begun before a person says so
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=10)
        etcd.edit_status({"progressDeadline": later.strftime("%Y-%m-%dT%H:%M:%SZ")})
        etcd.wait(1)


def test_a_member_that_cannot_start_is_given_up_and_the_next_edit_adopted(etcd, cluster):
    with Writer(etcd) as writer:
        etcd.create(2).wait(2)
        before = etcd.uids()
        with cluster.no_room():
            etcd.edit({"spec": {"replicas": 3, "progressDeadlineSeconds": 5}})
            until(lambda: given_up(etcd, "DeadlineExceeded"), 30, "it is given up")
            writer.more()
            etcd.scale(2)
            etcd.wait(2)
        assert etcd.uids() == before and len(etcd.etcd_members()) == 2
