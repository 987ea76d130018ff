"""Every key of every configuration is read: another value makes another rollout."""

import json
import re
import time

import pytest

from webtraj import errors
from webtraj.rollouts.configuration.dialects import ORBY, WEBGYM
from webtraj.rollouts.samplers import Blocklist

ROLLOUT = """
format=pb.zst ; metrics.tensorboard=events ; metrics.wandb.project=mine ;
metrics.wandb.entity=us ; metrics.wandb.run_name=first ; metrics.wandb.mode=offline ;
metrics.wandb.folder=kept ; save_path=elsewhere ; data_path={world}/other ; iteration=7 ; seed=5 ;
storage_options={timeout: 5.5} ; env_config.split=test ; env_config.train_tasks=test.jsonl ;
env_config.test_tasks=train.jsonl ; env_config.train_tasks_sampler=sequential ;
env_config.train_tasks_rollout_size=4 ; env_config.test_tasks_rollout_size=4 ;
env_config.test_tasks_repeat_times=3 ; env_config.attempts_per_task=2 ;
env_config.group=same-seed ; env_config.groups_per_task=3 ;
env_config.difficulty_ratio={easy: {range: [1, 3], weight: 1}, hard: {range: [7, 9], weight: 3}} ;
env_config.deduplicate_across_iterations=true ; env_config.blocklist_path=blocked.jsonl ;
env_config.blocklist_ttl_hours=0.0000001 ; env_config.train_difficulty_max_steps=[4, 5, 6] ;
env_config.test_difficulty_max_steps={easy: 4, medium: 5, hard: 6} ; env_config.max_steps=9 ;
env_config.max_repetitive_actions=3 ; env_config.server_size=12 ;
env_config.contexts_per_browser=3 ; env_config.browser_endpoint=http://127.0.0.1:9222 ;
env_config.http_pools.metadata=5 ; env_config.http_pools.navigate=5 ;
env_config.http_pools.allocate=5 ; env_config.http_pools.release=5 ;
env_config.http_pools.screenshot=5 ; env_config.http_pools.ac_tree=5 ;
env_config.http_pools.page_metadata=5 ; env_config.http_pools.execute=5 ;
env_config.task_order=fair ; env_config.episodes_per_site=2 ; env_config.site_interval=1.5 ;
env_config.observe=[axtree] ; env_config.environment_options={height: 2} ;
env_config.wait_timeout=7 ; env_config.operation_timeout=8 ; env_config.step_timeout=9 ;
env_config.task_timeout_minutes=2 ; env_config.run_timeout_minutes=3 ; env_config.max_retries=4 ;
env_config.retry_policy.pause=0.5 ; env_config.retry_policy.max_pause=9 ;
env_config.max_consecutive_errors=6 ; env_config.completion_threshold=0.9 ;
env_config.completion_grace_period=1 ; env_config.save_every_percent=10 ;
env_config.vllm_server_url=[http://a:1, http://b:2/v1] ; env_config.max_vllm_sessions=9 ;
env_config.vllm_timeout=11 ; env_config.request_per_minute=30 ; env_config.multinode_rank=1 ;
env_config.multinode_total_workers=3 ; env_config.multinode_rank_suffix=-here ;
env_config.rank_load_weight=3 ; env_config.total_load_weight=5 ;
env_config.all_rank_weights='1,2' ; env_config.verbose=true ; policy_config.agent=oracle ;
policy_config.agent_options={cut_harder: 1} ; policy_config.base_model=other ;
policy_config.checkpoint_path=model.pt ; policy_config.provider=vllm ;
policy_config.api_key_env_var=MY_KEY ; policy_config.max_new_tokens=99 ;
policy_config.temperature=0.3 ; policy_config.top_p=0.8 ; policy_config.top_k=4 ;
policy_config.min_p=0.1 ; policy_config.sampling_seed=4 ; policy_config.enforce_actions=true ;
policy_config.max_invalid_actions=2 ; context_config.interaction_mode=set-of-marks ;
context_config.dialect=browsergym ; context_config.viewport=[800, 600] ;
context_config.images=true ; context_config.full_rounds=3 ; context_config.slide=3 ;
context_config.older_lines=3 ; context_config.screenshots=3 ; context_config.page_tokens=3 ;
context_config.old_page_tokens=3 ; context_config.text_tokens=3 ; context_config.cut_harder=3 ;
context_config.changes=true ; context_config.memory=false ; env_config.evaluation_workers=3 ;
judge=environment ; judge_when=always ; openai_config.model=other ;
openai_config.openai_api_key_env_var=JUDGE_KEY ; openai_config.base_url=http://j/v1 ;
openai_config.provider=openai ; openai_config.max_concurrency=3 ;
openai_config.requests_per_minute=9 ; openai_config.votes=3 ; openai_config.temperature=0.5 ;
openai_config.timeout=7 ; openai_config.judge_settings={max_screenshots: 3} ;
openai_config.keypoint_detection.model=small ;
openai_config.keypoint_detection.openai_api_key_env_var=SMALL_KEY ;
openai_config.keypoint_detection.base_url=http://small/v1 ;
openai_config.blocking_detection.model=small ;
openai_config.blocking_detection.openai_api_key_env_var=SMALL_KEY ;
openai_config.blocking_detection.base_url=http://small/v1 ; openai_config.evaluation.model=small ;
openai_config.evaluation.openai_api_key_env_var=SMALL_KEY ;
openai_config.evaluation.base_url=http://small/v1 ; model_config.model_type=qwen3-instruct ;
model_config.prompt_version=complete
"""
ROLLOUT_NEEDS = """
metrics.wandb.project metrics.wandb.entity metrics.wandb.run_name metrics.wandb.mode
metrics.wandb.folder
    <- metrics.wandb.project=demo
storage_options
    <- save_path=memory://keys ; env_config.blocklist_path=null
env_config.test_tasks env_config.test_tasks_rollout_size env_config.test_tasks_repeat_times
env_config.test_difficulty_max_steps
    <- env_config.split=test
env_config.group
    <- env_config.attempts_per_task=2
env_config.groups_per_task
    <- env_config.attempts_per_task=2 ; env_config.group=same-seed
env_config.difficulty_ratio
    <- env_config.train_tasks_sampler=ratio ; env_config.train_tasks_rollout_size=8
env_config.deduplicate_across_iterations
    <- env_config.train_tasks_sampler=sequential ; env_config.train_tasks_rollout_size=3 ;
       env_config.train_tasks=ladder.jsonl
env_config.blocklist_path
    <- env_config.train_tasks=sites.jsonl
env_config.blocklist_ttl_hours
    <- env_config.train_tasks=sites.jsonl ; env_config.blocklist_path=blocked.jsonl
env_config.train_difficulty_max_steps env_config.max_steps
    <- env_config.train_tasks_sampler=sequential ; env_config.train_tasks_rollout_size=3
env_config.multinode_rank env_config.multinode_total_workers env_config.multinode_rank_suffix
env_config.rank_load_weight
    <- env_config.multinode_rank=0 ; env_config.multinode_total_workers=2 ; iteration=1
env_config.total_load_weight
    <- env_config.multinode_rank=0 ; env_config.all_rank_weights=[2, 1] ; iteration=1
env_config.all_rank_weights
    <- env_config.multinode_rank=0 ; env_config.all_rank_weights=[2, 1] ; iteration=1 ;
       env_config.server_size=6
env_config.evaluation_workers judge_when openai_config.model
openai_config.openai_api_key_env_var openai_config.base_url openai_config.provider
openai_config.max_concurrency openai_config.requests_per_minute openai_config.votes
openai_config.temperature openai_config.timeout openai_config.judge_settings
openai_config.keypoint_detection.model openai_config.keypoint_detection.openai_api_key_env_var
openai_config.keypoint_detection.base_url openai_config.blocking_detection.model
openai_config.blocking_detection.openai_api_key_env_var
openai_config.blocking_detection.base_url openai_config.evaluation.model
openai_config.evaluation.openai_api_key_env_var openai_config.evaluation.base_url
    <- openai_config.model=judge
"""
CRAWL = """
format=pb.zst ; metrics.tensorboard=events ; metrics.wandb.project=mine ;
metrics.wandb.entity=us ; metrics.wandb.run_name=first ; metrics.wandb.mode=offline ;
metrics.wandb.folder=kept ; source_parquet_path={world}/test.jsonl ; s3_save_uri=s3://bucket/raw ;
num_raw_data=33 ; data_per_batch=4 ; request_per_minute=30 ; max_steps=7 ; agent_name=random ;
agent_model_provider=openai ; agent_model_name=other ; agent_model_url=http://a/v1 ;
agent_model_api_key_env_var=MY_KEY ; proposer=hindsight ; proposer_options={max_tokens: 5} ;
proposals_per_trajectory=7 ; agent_options={full_rounds: 1} ; temperature=0.5 ; max_tokens=77 ;
max_repetitive_actions=5 ; dp_max_retries=1 ; timeout=60 ; verbose=true ; group_size=2 ;
attempts=3 ; judge=environment ; judge_options={votes: 3, model: judge} ; judge_when=always ;
seed=4 ;
storage_options={region: here} ; environment_options={height: 2} ; retry_pause=0.5 ;
max_retry_pause=9 ; max_consecutive_errors=6 ; step_timeout=9 ; run_timeout=180 ;
completion_threshold=0.9 ; completion_grace_period=1 ; task_order=fair ; episodes_per_site=2 ;
site_interval=1.5 ; blocklist_path={world}/runs/blocked.jsonl ; blocklist_ttl_hours=0.0000001 ;
save_every_percent=10 ; observe=[axtree] ; contexts_per_browser=3 ;
browser_endpoint=http://127.0.0.1:9222 ; wait_timeout=7 ; operation_timeout=8 ;
operation_limits={navigate: 5} ; judge_parallel=3
"""
CRAWL_NEEDS = """
metrics.wandb.project metrics.wandb.entity metrics.wandb.run_name metrics.wandb.mode
metrics.wandb.folder
    <- metrics.wandb.project=demo
proposer
    <- source_parquet_path={world}/coarse.jsonl
proposer_options
    <- source_parquet_path={world}/coarse.jsonl ; proposer=model
proposals_per_trajectory
    <- source_parquet_path={world}/coarse.jsonl ; proposer=hindsight
group_size
    <- num_raw_data=2
attempts
    <- num_raw_data=null
judge_options
    <- judge=model ; judge_options={model: judge}
judge_when judge_parallel
    <- judge=environment
storage_options
    <- s3_save_uri=s3://bucket/raw
blocklist_path
    <- source_parquet_path={world}/sites.jsonl
blocklist_ttl_hours
    <- source_parquet_path={world}/sites.jsonl ; blocklist_path={world}/runs/blocked.jsonl
"""
"""Another value of each key, and the overrides without which a key says nothing."""

SAME = {"kind", "env_config.save_traj_progress"}
"""Keys that have but one value."""
REFUSED = {"env_config.rank_load_weight", "env_config.total_load_weight"}
"""Keys whose other value contradicts the others."""


@pytest.fixture
async def seeded(world, build, task_row, write_rows, monkeypatch):
    """An earlier iteration, a blocklist, a checkpoint, and other task files."""
    for name in ("MY_KEY", "JUDGE_KEY", "SMALL_KEY"):
        monkeypatch.setenv(name, "sk-of-the-test")
    (world / "other").mkdir()
    write_rows(world / "other" / "train.jsonl", [task_row(77)])
    write_rows(world / "sites.jsonl", [task_row(100, website="shut.example"), task_row(101)])
    first = (
        "env_config.train_tasks=[ladder/climb, ladder/slip]", "policy_config.agent=oracle",
    )  # fmt: skip
    await build(*first).play()
    (world / "runs" / "model.pt").mkdir()
    hour_ago = time.time() - 3600
    Blocklist(world / "runs" / "blocked.jsonl", clock=lambda: hour_ago).add("shut.example")
    return world


def played(rollout):
    """Returns all that a rollout's configuration decides."""
    share = rollout.run_id.partition("_rank")[2]
    settings = json.dumps(rollout.spec.model_dump(), sort_keys=True, default=str)
    return settings, rollout.out, rollout.storage_options, rollout.iteration, rollout.plan, share


@pytest.mark.parametrize(
    ("dialect", "cases", "needs", "name"),
    [(WEBGYM, ROLLOUT, ROLLOUT_NEEDS, "own"), (ORBY, CRAWL, CRAWL_NEEDS, "crawled")],
    ids=["rollout", "crawl"],
)
async def test_every_key_is_read(dialect, cases, needs, name, build, seeded):
    def outcome(*overrides):
        given = [text.replace("{world}", str(seeded)) for text in overrides]
        try:
            return played(build(*given, name=name))
        except errors.InvalidInputError as error:
            return str(error)

    values = dict(one.strip().split("=", 1) for one in cases.split(" ;"))
    assert values.keys() == dialect.table.keys() - SAME
    beside = {}
    for keys, overrides in re.findall(r"^(\S[^<]*)<- ((?:.+\n)(?: {7}.+\n)*)", needs, re.MULTILINE):
        needed = [one.strip() for one in overrides.split(" ;")]
        beside |= dict.fromkeys(keys.split(), needed)
    unread = {}
    for key, value in values.items():
        before = outcome(*beside.get(key, ()))
        after = outcome(*beside.get(key, ()), f"{key}={value}")
        if before == after or isinstance(after, str) is not (key in REFUSED):
            unread[key] = after
    assert not unread
