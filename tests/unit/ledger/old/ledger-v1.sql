BEGIN TRANSACTION;
CREATE TABLE attempts (
	id INTEGER NOT NULL, 
	run_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	"plan" TEXT NOT NULL, 
	plan_digest VARCHAR NOT NULL, 
	test_digest VARCHAR NOT NULL, 
	test_ids_digest VARCHAR NOT NULL, 
	look INTEGER NOT NULL, 
	override_reason TEXT, 
	state VARCHAR NOT NULL, 
	opened_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	result TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT one_attempt_number UNIQUE (run_id, number), 
	CONSTRAINT one_look_number UNIQUE (test_digest, look), 
	CONSTRAINT attempt_state CHECK (state IN ('open', 'committed', 'superseded')), 
	CONSTRAINT committed_has_result CHECK ((state = 'committed') = (result IS NOT NULL)), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "attempts" VALUES(1,'old-1',1,'{"adapter_files":[["adapter.py","sha256:19f49cc223de15a9ef989de79de7be67f41b9a4eb21f0dc603e97252c2b8f532"]],"base_seed":0,"best_id":"sha256:53a242262f2a4c07f76817fd34340359cffc88cbd2d121d0f30c3043ab152dc8","ks":[1,2],"num_trials":2,"seed_id":"sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce","tasks":[["t10","sha256:5602a0ca1e3765424fc91c7a488a17e20f22d15a482373d65e9c59471032d9f4"],["t2","sha256:fd5219945b2558b9fba2e7ba290ec2fee2c04b7f632d31ffac9717d93ded1094"],["t3","sha256:844e0659532bf9f6fe77951367829003a7c99c45a38ca33cbc42b89991dce9ad"],["t7","sha256:283bec0dfbc8ce9d8c05bb74062cf5e8bc79daafb87e16d6054fc0f2ab62c9cd"]],"version":"0.1.0"}','sha256:4796bd749a39d3730ea8d75eb05b579d1db9b920c9f7b8f1e9b22d5631cf9947','sha256:9511b1af53d1c8b6469a0161d271a94a0e9f0bd49d74a4f43bacb9dab8fa1989','sha256:4352d2ac91a5bfe1b75d1c8101ca6ff9ec861393064d4e29f38d063917139396',1,NULL,'committed',1.79607368534302377699e+09,1.79607368576267290112e+09,'{"baseline_id":"sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce","best_id":"sha256:53a242262f2a4c07f76817fd34340359cffc88cbd2d121d0f30c3043ab152dc8","capevolve_version":"0.1.0","kind":"held_out","run":"old-1","schema_version":1,"seal":{"attempts":1,"chain_head":"sha256:0e097cadff2ef420394e803d66319a37a663d3809c316fdc6e9b8e403cd1ce4f","interrupted_trials":0,"look":1,"looks":1,"override_reason":null,"plan_digest":"sha256:4796bd749a39d3730ea8d75eb05b579d1db9b920c9f7b8f1e9b22d5631cf9947","test_digest":"sha256:9511b1af53d1c8b6469a0161d271a94a0e9f0bd49d74a4f43bacb9dab8fa1989"},"test":{"candidate":"sha256:53a242262f2a4c07f76817fd34340359cffc88cbd2d121d0f30c3043ab152dc8","coverage":1.0,"fixed_stderr":0.0,"n_missing":0,"n_scored":4,"n_tasks":4,"n_trials":8,"num_trials":2,"pass_at_k":{"1":{"se":0.0,"value":1.0},"2":{"se":0.0,"value":1.0}},"pass_k":{"1":{"se":0.0,"value":1.0},"2":{"se":0.0,"value":1.0}},"reward":1.0,"stderr":0.0},"test_baseline":{"candidate":"sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce","coverage":1.0,"fixed_stderr":0.0,"n_missing":0,"n_scored":4,"n_tasks":4,"n_trials":8,"num_trials":2,"pass_at_k":{"1":{"se":0.0,"value":0.0},"2":{"se":0.0,"value":0.0}},"pass_k":{"1":{"se":0.0,"value":0.0},"2":{"se":0.0,"value":0.0}},"reward":0.0,"stderr":0.0},"test_delta":{"ci95":null,"degenerate":true,"delta":1.0,"df":3,"dropped":[],"improved":4,"indicative":true,"n":4,"p_sign_flip":{"exact":true,"value":0.0625},"p_t":null,"p_within_task":{"exact":true,"value":0.0007716049382716049},"same":0,"stderr":0.0,"worse":0},"test_delta_reason":null,"test_looks":1}');
CREATE TABLE blobs (
	digest VARCHAR NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (digest)
);
INSERT INTO "blobs" VALUES('sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03',X'68656C6C6F0A');
INSERT INTO "blobs" VALUES('sha256:72bc30bd85d75d05c5eeca0df5481028d4b05593848133a144b580af382e3a60',X'6E6F7468696E670A');
INSERT INTO "blobs" VALUES('sha256:e2c7343a56de0606cbcd020c82a262048b915caf7cc895c8ece8da1d4beab889',X'4D41524B0A');
CREATE TABLE candidates (
	id VARCHAR NOT NULL, 
	manifest TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "candidates" VALUES('sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce','[["prompt.md","sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",false]]');
INSERT INTO "candidates" VALUES('sha256:0b7eaa1d6fd14aa0643d408831414a85ada4b174fc84ebc4ffef0c7ed6a3bc40','[["prompt.md","sha256:72bc30bd85d75d05c5eeca0df5481028d4b05593848133a144b580af382e3a60",false]]');
INSERT INTO "candidates" VALUES('sha256:53a242262f2a4c07f76817fd34340359cffc88cbd2d121d0f30c3043ab152dc8','[["prompt.md","sha256:e2c7343a56de0606cbcd020c82a262048b915caf7cc895c8ece8da1d4beab889",false]]');
CREATE TABLE evaluations (
	id INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	run_id VARCHAR NOT NULL, 
	candidate_id VARCHAR NOT NULL, 
	split VARCHAR NOT NULL, 
	tag VARCHAR NOT NULL, 
	num_trials INTEGER NOT NULL, 
	base_seed INTEGER NOT NULL, 
	subset TEXT, 
	attempt_id INTEGER, 
	session INTEGER NOT NULL, 
	created_at FLOAT NOT NULL, 
	finished_at FLOAT, 
	PRIMARY KEY (id), 
	CONSTRAINT test_needs_attempt CHECK ((split = 'test') = (attempt_id IS NOT NULL)), 
	UNIQUE (digest), 
	FOREIGN KEY(run_id) REFERENCES runs (id), 
	FOREIGN KEY(candidate_id) REFERENCES candidates (id), 
	FOREIGN KEY(attempt_id) REFERENCES attempts (id)
);
INSERT INTO "evaluations" VALUES(1,'sha256:a762d860b5bf32286f7b9676942f18c668b7bf5d32a37ac67df876a9746a2045','old-1','sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce','val','',2,0,NULL,NULL,1,1.79607368443556475639e+09,1.79607368478931283956e+09);
INSERT INTO "evaluations" VALUES(2,'sha256:24d7f306c7ed34ea2dd254bf7702ed2155efb1a1ec5fa434629fa52cf499730a','old-1','sha256:0b7eaa1d6fd14aa0643d408831414a85ada4b174fc84ebc4ffef0c7ed6a3bc40','val','',2,0,NULL,NULL,1,1.79607368487147498132e+09,1.79607368510651397705e+09);
INSERT INTO "evaluations" VALUES(3,'sha256:8fed297c32c88a793da0a0c53463dac3c5ae637679ca29a533a77dafd61f3d28','old-1','sha256:53a242262f2a4c07f76817fd34340359cffc88cbd2d121d0f30c3043ab152dc8','val','',2,0,NULL,NULL,1,1.79607368514328765872e+09,1.79607368533108258243e+09);
INSERT INTO "evaluations" VALUES(4,'sha256:e62d43a1ec615d7262962933e0efad9a215bbd8f861e1c11f2b4fae768bdb967','old-1','sha256:53a242262f2a4c07f76817fd34340359cffc88cbd2d121d0f30c3043ab152dc8','test','FINAL',2,0,NULL,1,1,1.79607368537144732479e+09,1.79607368574746441847e+09);
INSERT INTO "evaluations" VALUES(5,'sha256:4eab783f3c613eb7518b26407b9c2a9e794d780542b804c41ab697c41a9161dc','old-1','sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce','test','FINAL_seed',2,0,NULL,1,1,1.7960736853726654052e+09,1.79607368574805307389e+09);
CREATE TABLE events (
	id INTEGER NOT NULL, 
	run_id VARCHAR NOT NULL, 
	at FLOAT NOT NULL, 
	kind VARCHAR NOT NULL, 
	payload TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "events" VALUES(1,'old-1',1.79607368442078089718e+09,'started','{"digest":"sha256:0a1767be6509e6da182f5b1ab340af0861e79caaec0e8cdeb7b1b21773d786d4","sizes":{"test":4,"train":4,"val":4},"warnings":["val has 4 tasks: verdicts are of low confidence.","test has 4 tasks: the final number is indicative."]}');
INSERT INTO "events" VALUES(2,'old-1',1.79607368578163719176e+09,'finished','{"reason":"no headroom: the incumbent already scores 1.0 on val"}');
CREATE TABLE leases (
	run_id VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	host VARCHAR NOT NULL, 
	pid INTEGER NOT NULL, 
	pid_started_at FLOAT NOT NULL, 
	epoch INTEGER NOT NULL, 
	acquired_at FLOAT NOT NULL, 
	heartbeat_at FLOAT NOT NULL, 
	released_at FLOAT, 
	PRIMARY KEY (run_id)
);
INSERT INTO "leases" VALUES('old-1','93d7fb0986ca4ef3a06f4b96bb3957ed','somewhere',4411,1796073682.71,1,1.79607368431774187082e+09,1.79607368431774187082e+09,1.79607368579263234134e+09);
CREATE TABLE meta (
	"key" VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('schema_version','1');
CREATE TABLE proposals (
	run_id VARCHAR NOT NULL, 
	iteration INTEGER NOT NULL, 
	parent_id VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	candidate_id VARCHAR, 
	summary TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	cost_usd FLOAT, 
	tokens BIGINT, 
	calls INTEGER NOT NULL, 
	started_at FLOAT NOT NULL, 
	finished_at FLOAT, 
	PRIMARY KEY (run_id, iteration), 
	CONSTRAINT proposal_status CHECK (status IN ('started', 'proposed', 'duplicate', 'empty', 'invalid', 'failed', 'exhausted')), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "proposals" VALUES('old-1',1,'sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce','proposed','sha256:0b7eaa1d6fd14aa0643d408831414a85ada4b174fc84ebc4ffef0c7ed6a3bc40','useless','',NULL,NULL,1,1.79607368483137178416e+09,1.79607368485528516772e+09);
INSERT INTO "proposals" VALUES('old-1',2,'sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce','proposed','sha256:53a242262f2a4c07f76817fd34340359cffc88cbd2d121d0f30c3043ab152dc8','add the marker','',NULL,NULL,1,1796073685.13018,1.79607368513992643357e+09);
CREATE TABLE rollouts (
	evaluation_id INTEGER NOT NULL, 
	task_id TEXT NOT NULL, 
	trial INTEGER NOT NULL, 
	feedback TEXT NOT NULL, 
	metrics TEXT NOT NULL, 
	payload TEXT NOT NULL, 
	PRIMARY KEY (evaluation_id, task_id, trial), 
	FOREIGN KEY(evaluation_id) REFERENCES evaluations (id)
);
INSERT INTO "rollouts" VALUES(1,'t0',0,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(1,'t0',1,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(1,'t1',0,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(1,'t1',1,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(1,'t6',0,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(1,'t6',1,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(1,'t9',0,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(1,'t9',1,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(2,'t0',0,'','[]','{"output": "nothing\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(2,'t0',1,'','[]','{"output": "nothing\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(2,'t1',0,'','[]','{"output": "nothing\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(2,'t1',1,'','[]','{"output": "nothing\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(2,'t6',0,'','[]','{"output": "nothing\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(2,'t6',1,'','[]','{"output": "nothing\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(2,'t9',0,'','[]','{"output": "nothing\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(2,'t9',1,'','[]','{"output": "nothing\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(3,'t0',0,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(3,'t0',1,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(3,'t1',0,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(3,'t9',0,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(3,'t9',1,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(3,'t1',1,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(3,'t6',0,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(3,'t6',1,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(4,'t10',0,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(5,'t10',0,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(4,'t10',1,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(4,'t2',0,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(5,'t10',1,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(4,'t2',1,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(5,'t2',0,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(4,'t3',0,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(5,'t2',1,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(4,'t3',1,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(5,'t3',0,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(4,'t7',0,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(5,'t3',1,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(4,'t7',1,'','[]','{"output": "MARK\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(5,'t7',0,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
INSERT INTO "rollouts" VALUES(5,'t7',1,'','[]','{"output": "hello\n", "trace": null, "tool_calls": [], "error": null, "metadata": {}}');
CREATE TABLE runs (
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	created_at FLOAT NOT NULL, 
	spec TEXT NOT NULL, 
	spec_digest VARCHAR NOT NULL, 
	version VARCHAR NOT NULL, 
	seed_candidate VARCHAR NOT NULL, 
	adapter_files TEXT NOT NULL, 
	adapter_digest VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	stop_reason TEXT, 
	ended_at FLOAT, 
	PRIMARY KEY (id), 
	CONSTRAINT run_status CHECK (status IN ('running', 'stopped', 'finished'))
);
INSERT INTO "runs" VALUES('old-1','marker',1.79607368442078089718e+09,'{"adapter":"adapter.py","budget":{"max_calls":null,"max_minutes":null,"max_proposer_usd":null,"max_usd":null},"editable":["**"],"evaluation":{"base_seed":null,"concurrency":2,"grace_s":2.0,"ks":null,"max_interruptions":5,"num_trials":2,"retries":2,"retry_wait_s":0.5,"timeout_s":300.0,"trials_per_host":null},"gate":{"k_se":1.0,"min_coverage":0.6,"mode":"paired","threshold":0.0},"name":"marker","proposer":{"file":"edits.yaml","kind":"script"},"seal":{"interrupted":"rerun","max_test_looks":null,"num_trials":null},"search":{"kind":"hill_climb","max_iterations":2,"stall":0},"seed_candidate":"seed","splits":{"allow_no_holdout":false,"allow_small":false,"counts":{"test":4,"train":4,"val":4},"group_by":null,"ids":null,"ids_file":null,"on_duplicate_content":"refuse","ratios":null,"seed":0}}','sha256:4b844da8d472978671c09f22aa21284589a854a70e25f8580c11ffed93947856','0.1.0','sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce','{"adapter.py":"sha256:19f49cc223de15a9ef989de79de7be67f41b9a4eb21f0dc603e97252c2b8f532"}','sha256:c25a726997512a9b72ae186bfcfa86b8589eca32eab3f15e8fd088bb6da03090','finished','no headroom: the incumbent already scores 1.0 on val',1.79607368578100347515e+09);
CREATE TABLE seal_events (
	run_id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	kind VARCHAR NOT NULL, 
	payload TEXT NOT NULL, 
	at FLOAT NOT NULL, 
	previous VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	PRIMARY KEY (run_id, seq), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "seal_events" VALUES('old-1',1,'opened','{"attempt":1,"epoch":1,"look":1,"override":null,"plan":"sha256:4796bd749a39d3730ea8d75eb05b579d1db9b920c9f7b8f1e9b22d5631cf9947","splits":"sha256:0a1767be6509e6da182f5b1ab340af0861e79caaec0e8cdeb7b1b21773d786d4"}',1.79607368534302377699e+09,'sha256:3440a6866c172300a26562e0ae781d0132b80cbef4e560699468e00f7d7e5419','sha256:0e097cadff2ef420394e803d66319a37a663d3809c316fdc6e9b8e403cd1ce4f');
INSERT INTO "seal_events" VALUES('old-1',2,'committed','{"attempt":1,"epoch":1,"evidence":{"digest":"sha256:b2b7320a96ca7fc1e406c8c22b6f117a9f0471956a61e7b67019cd7bdc12588f","marks":{"proposals":{"1":"4a623505","2":"f60747de"},"runs":{"old-1":"0e81ef58"},"split_sets":{"old-1":"cb8b5f99"},"split_tasks":{"test":{"t10":"74fe19d4","t2":"3d1f44e3","t3":"d0ede2e0","t7":"ea21473d"},"train":{"t11":"e6dc4b26","t4":"c5d94fad","t5":"63558354","t8":"d01e0646"},"val":{"t0":"bbcfacbe","t1":"b0eeec2e","t6":"1561d509","t9":"d963ffc7"}},"trials":{"1":{"t0":{"0":"96706bdb","1":"4bae6eaf"},"t1":{"0":"b6009dd7","1":"f33353b1"},"t6":{"0":"31356529","1":"8d8d94a7"},"t9":{"0":"e93f8a9e","1":"cc76835f"}},"2":{"t0":{"0":"814ebae3","1":"e2ee0a72"},"t1":{"0":"e64e14cd","1":"3e592b4f"},"t6":{"0":"d5d90fa1","1":"ec863e25"},"t9":{"0":"6b865f14","1":"8d00219d"}},"3":{"t0":{"0":"cd09460e","1":"8fdf17cb"},"t1":{"0":"8de66189","1":"110fe496"},"t6":{"0":"452391e8","1":"2c7c9c00"},"t9":{"0":"a4eb07bb","1":"d6634eae"}},"4":{"t10":{"0":"86921739","1":"0e58f321"},"t2":{"0":"f92f0313","1":"f485f34d"},"t3":{"0":"6c5bfafc","1":"6c535ffe"},"t7":{"0":"94b2ea01","1":"ce2cd49b"}},"5":{"t10":{"0":"60b5be39","1":"60116581"},"t2":{"0":"742fce5c","1":"1d73e4aa"},"t3":{"0":"64ba7d20","1":"a53b18fe"},"t7":{"0":"d1ea8ede","1":"dc65ab32"}}},"verdicts":{"1":"a2790c52","2":"099789fc"}},"version":1},"plan":"sha256:4796bd749a39d3730ea8d75eb05b579d1db9b920c9f7b8f1e9b22d5631cf9947","result":"sha256:dede6a38625eff2737382bd19acdcdcf364f242a6332b79b377435d2702399e6"}',1.79607368576267290112e+09,'sha256:0e097cadff2ef420394e803d66319a37a663d3809c316fdc6e9b8e403cd1ce4f','sha256:d8fb8975a75d14e885b856669e32b9b7bbea23594151b5c45da40bcb02d71c43');
CREATE TABLE split_sets (
	run_id VARCHAR NOT NULL, 
	payload TEXT NOT NULL, 
	digest VARCHAR NOT NULL, 
	test_digest VARCHAR NOT NULL, 
	test_ids_digest VARCHAR NOT NULL, 
	frozen_at FLOAT NOT NULL, 
	PRIMARY KEY (run_id), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "split_sets" VALUES('old-1','{"holdout":true,"method":"counts","seed":0,"val_holdout":true,"warnings":["val has 4 tasks: verdicts are of low confidence.","test has 4 tasks: the final number is indicative."]}','sha256:0a1767be6509e6da182f5b1ab340af0861e79caaec0e8cdeb7b1b21773d786d4','sha256:9511b1af53d1c8b6469a0161d271a94a0e9f0bd49d74a4f43bacb9dab8fa1989','sha256:4352d2ac91a5bfe1b75d1c8101ca6ff9ec861393064d4e29f38d063917139396',1.79607368442078089718e+09);
CREATE TABLE split_tasks (
	run_id VARCHAR NOT NULL, 
	split VARCHAR NOT NULL, 
	task_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	cluster TEXT, 
	task_group TEXT, 
	content TEXT, 
	PRIMARY KEY (run_id, split, task_id), 
	CONSTRAINT split_name CHECK (split IN ('train', 'val', 'test', 'unused')), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "split_tasks" VALUES('old-1','train','t11',0,'sha256:5c65809ffe8928fcc4fa579f762c57b0d22ef0201db74c9ea5944dc9a7a2c4d1',NULL,NULL,'{"input":11,"metadata":{},"target":"MARK"}');
INSERT INTO "split_tasks" VALUES('old-1','train','t4',1,'sha256:09955f4806ad7eb2180b3b311ab2aaf86d2d5c6528fe31e3e9630233441db606',NULL,NULL,'{"input":4,"metadata":{},"target":"MARK"}');
INSERT INTO "split_tasks" VALUES('old-1','train','t5',2,'sha256:ac9d85a8ce47681b642891782dc1a6e55b3721ed9191cd3a44fc6d4f8ed5f9d1',NULL,NULL,'{"input":5,"metadata":{},"target":"MARK"}');
INSERT INTO "split_tasks" VALUES('old-1','train','t8',3,'sha256:fcb97489106f4f3e70e35238901c72f2d41e4e9e6d50c79333e2c8aa41209549',NULL,NULL,'{"input":8,"metadata":{},"target":"MARK"}');
INSERT INTO "split_tasks" VALUES('old-1','val','t0',4,'sha256:171b9c836c6a064476b1fb5471f8e836d446cee68bcafdb12c37b9cf0cbb0bff',NULL,NULL,NULL);
INSERT INTO "split_tasks" VALUES('old-1','val','t1',5,'sha256:7951b2db7544e8da2ae8bb0268374b453fd8f54b7d0a15bf8410571297bc99af',NULL,NULL,NULL);
INSERT INTO "split_tasks" VALUES('old-1','val','t6',6,'sha256:82539d65aec0879efa6ce6c2dd50213719c3e381dd8a93f13868872ddb71f59c',NULL,NULL,NULL);
INSERT INTO "split_tasks" VALUES('old-1','val','t9',7,'sha256:1c6e48dce83ef92a669427ad0fb6096590c40913cf42866a1c06393f5c21b740',NULL,NULL,NULL);
INSERT INTO "split_tasks" VALUES('old-1','test','t10',8,'sha256:5602a0ca1e3765424fc91c7a488a17e20f22d15a482373d65e9c59471032d9f4',NULL,NULL,NULL);
INSERT INTO "split_tasks" VALUES('old-1','test','t2',9,'sha256:fd5219945b2558b9fba2e7ba290ec2fee2c04b7f632d31ffac9717d93ded1094',NULL,NULL,NULL);
INSERT INTO "split_tasks" VALUES('old-1','test','t3',10,'sha256:844e0659532bf9f6fe77951367829003a7c99c45a38ca33cbc42b89991dce9ad',NULL,NULL,NULL);
INSERT INTO "split_tasks" VALUES('old-1','test','t7',11,'sha256:283bec0dfbc8ce9d8c05bb74062cf5e8bc79daafb87e16d6054fc0f2ab62c9cd',NULL,NULL,NULL);
CREATE TABLE trials (
	evaluation_id INTEGER NOT NULL, 
	task_id TEXT NOT NULL, 
	trial INTEGER NOT NULL, 
	seed INTEGER NOT NULL, 
	state VARCHAR NOT NULL, 
	epoch INTEGER NOT NULL, 
	session INTEGER NOT NULL, 
	calls INTEGER NOT NULL, 
	interrupted INTEGER NOT NULL, 
	claimed_at FLOAT NOT NULL, 
	finished_at FLOAT, 
	reward FLOAT, 
	reason VARCHAR, 
	detail TEXT, 
	duration_s FLOAT, 
	cost_usd FLOAT, 
	tokens BIGINT, 
	PRIMARY KEY (evaluation_id, task_id, trial), 
	CONSTRAINT trial_state CHECK (state IN ('claimed', 'scored', 'unmeasured')), 
	CONSTRAINT scored_has_reward CHECK ((state = 'scored') = (reward IS NOT NULL)), 
	CONSTRAINT reward_range CHECK (reward IS NULL OR (reward >= 0 AND reward <= 1)), 
	FOREIGN KEY(evaluation_id) REFERENCES evaluations (id)
);
INSERT INTO "trials" VALUES(1,'t0',0,0,'scored',1,1,1,0,1.7960736846603417397e+09,1.7960736846662652493e+09,0.0,NULL,NULL,3.88237999686680268496e-04,NULL,NULL);
INSERT INTO "trials" VALUES(1,'t0',1,1,'scored',1,1,1,0,1.7960736846603417397e+09,1.79607368468252921104e+09,0.0,NULL,NULL,1.55190000441507436335e-04,NULL,NULL);
INSERT INTO "trials" VALUES(1,'t1',0,0,'scored',1,1,1,0,1.7960736846662652493e+09,1.79607368470039391512e+09,0.0,NULL,NULL,1.94008999642392154783e-04,NULL,NULL);
INSERT INTO "trials" VALUES(1,'t1',1,1,'scored',1,1,1,0,1.7960736846662652493e+09,1.79607368470039391512e+09,0.0,NULL,NULL,8.4524999692803248763e-05,NULL,NULL);
INSERT INTO "trials" VALUES(1,'t6',0,0,'scored',1,1,1,0,1.7960736846662652493e+09,1.79607368470039391512e+09,0.0,NULL,NULL,6.08099999226396903395e-05,NULL,NULL);
INSERT INTO "trials" VALUES(1,'t6',1,1,'scored',1,1,1,0,1.7960736846662652493e+09,1.79607368470039391512e+09,0.0,NULL,NULL,5.3889999435341451317e-05,NULL,NULL);
INSERT INTO "trials" VALUES(1,'t9',0,0,'scored',1,1,1,0,1.7960736846662652493e+09,1.79607368470039391512e+09,0.0,NULL,NULL,5.18970000484841875731e-05,NULL,NULL);
INSERT INTO "trials" VALUES(1,'t9',1,1,'scored',1,1,1,0,1.7960736846662652493e+09,1.79607368470039391512e+09,0.0,NULL,NULL,5.99290005993680097162e-05,NULL,NULL);
INSERT INTO "trials" VALUES(2,'t0',0,0,'scored',1,1,1,0,1.79607368504133749001e+09,1.79607368505143332477e+09,0.0,NULL,NULL,3.98614000005181878805e-04,NULL,NULL);
INSERT INTO "trials" VALUES(2,'t0',1,1,'scored',1,1,1,0,1.79607368504133749001e+09,1.79607368505639600751e+09,0.0,NULL,NULL,1.81280000106198713183e-04,NULL,NULL);
INSERT INTO "trials" VALUES(2,'t1',0,0,'scored',1,1,1,0,1.79607368505143332477e+09,1.7960736850590159893e+09,0.0,NULL,NULL,1.46768999911728315055e-04,NULL,NULL);
INSERT INTO "trials" VALUES(2,'t1',1,1,'scored',1,1,1,0,1.79607368505143332477e+09,1.7960736850590159893e+09,0.0,NULL,NULL,8.18919997982448e-05,NULL,NULL);
INSERT INTO "trials" VALUES(2,'t6',0,0,'scored',1,1,1,0,1.79607368505143332477e+09,1.7960736850590159893e+09,0.0,NULL,NULL,7.99190001998795196413e-05,NULL,NULL);
INSERT INTO "trials" VALUES(2,'t6',1,1,'scored',1,1,1,0,1.79607368505143332477e+09,1.7960736850590159893e+09,0.0,NULL,NULL,7.82659999458701349794e-05,NULL,NULL);
INSERT INTO "trials" VALUES(2,'t9',0,0,'scored',1,1,1,0,1.79607368505143332477e+09,1.7960736850590159893e+09,0.0,NULL,NULL,7.53920003262464888393e-05,NULL,NULL);
INSERT INTO "trials" VALUES(2,'t9',1,1,'scored',1,1,1,0,1.79607368505143332477e+09,1.79607368506828641891e+09,0.0,NULL,NULL,9.60430006671231240034e-05,NULL,NULL);
INSERT INTO "trials" VALUES(3,'t0',0,0,'scored',1,1,1,0,1.79607368526437854768e+09,1.79607368527040886876e+09,1.0,NULL,NULL,3.94988000152807217091e-04,NULL,NULL);
INSERT INTO "trials" VALUES(3,'t0',1,1,'scored',1,1,1,0,1.79607368526437854768e+09,1.79607368527345609659e+09,1.0,NULL,NULL,2.37994000599428545683e-04,NULL,NULL);
INSERT INTO "trials" VALUES(3,'t1',0,0,'scored',1,1,1,0,1.79607368527040886876e+09,1.79607368528435707094e+09,1.0,NULL,NULL,9.85470005616662092506e-05,NULL,NULL);
INSERT INTO "trials" VALUES(3,'t1',1,1,'scored',1,1,1,0,1.79607368527040886876e+09,1.79607368528435707094e+09,1.0,NULL,NULL,4.40304999756335746496e-04,NULL,NULL);
INSERT INTO "trials" VALUES(3,'t9',0,0,'scored',1,1,1,0,1.79607368527040886876e+09,1.79607368528435707094e+09,1.0,NULL,NULL,6.21829994997824542224e-05,NULL,NULL);
INSERT INTO "trials" VALUES(3,'t9',1,1,'scored',1,1,1,0,1.79607368527040886876e+09,1.79607368528435707094e+09,1.0,NULL,NULL,5.02550001328927464783e-05,NULL,NULL);
INSERT INTO "trials" VALUES(3,'t6',0,0,'scored',1,1,1,0,1.79607368527040886876e+09,1.79607368528435707094e+09,1.0,NULL,NULL,8.8411000433552544564e-05,NULL,NULL);
INSERT INTO "trials" VALUES(3,'t6',1,1,'scored',1,1,1,0,1.79607368527040886876e+09,1.79607368528435707094e+09,1.0,NULL,NULL,7.78459998400649e-05,NULL,NULL);
INSERT INTO "trials" VALUES(4,'t10',0,0,'scored',1,1,1,0,1.79607368558848953243e+09,1.79607368559256792067e+09,1.0,NULL,NULL,4.64581999949587043374e-04,NULL,NULL);
INSERT INTO "trials" VALUES(5,'t10',0,0,'scored',1,1,1,0,1.79607368558848953243e+09,1.79607368559658861157e+09,0.0,NULL,NULL,3.56851000105962157249e-04,NULL,NULL);
INSERT INTO "trials" VALUES(4,'t10',1,1,'scored',1,1,1,0,1.79607368559256792067e+09,1.7960736856029033661e+09,1.0,NULL,NULL,1.47400000059860758483e-04,NULL,NULL);
INSERT INTO "trials" VALUES(5,'t10',1,1,'scored',1,1,1,0,1.79607368559658861157e+09,1.79607368560747694967e+09,0.0,NULL,NULL,1.87939999705122318118e-04,NULL,NULL);
INSERT INTO "trials" VALUES(4,'t2',0,0,'scored',1,1,1,0,1.7960736856029033661e+09,1.79607368560526895525e+09,1.0,NULL,NULL,1.88269999853218905627e-04,NULL,NULL);
INSERT INTO "trials" VALUES(5,'t2',0,0,'scored',1,1,1,0,1.79607368560526895525e+09,1.79607368561373686791e+09,0.0,NULL,NULL,1.64264999511942733079e-04,NULL,NULL);
INSERT INTO "trials" VALUES(4,'t2',1,1,'scored',1,1,1,0,1.79607368560747694967e+09,1.79607368560951828955e+09,1.0,NULL,NULL,1.39888999910908751189e-04,NULL,NULL);
INSERT INTO "trials" VALUES(5,'t2',1,1,'scored',1,1,1,0,1.79607368560951828955e+09,1.7960736856182558537e+09,0.0,NULL,NULL,2.71632299973134649917e-03,NULL,NULL);
INSERT INTO "trials" VALUES(4,'t3',0,0,'scored',1,1,1,0,1.79607368561373686791e+09,1.79607368561622619635e+09,1.0,NULL,NULL,1.97903999833215493708e-04,NULL,NULL);
INSERT INTO "trials" VALUES(5,'t3',0,0,'scored',1,1,1,0,1.79607368561622619635e+09,1.79607368562294816968e+09,0.0,NULL,NULL,1.55241000356909353286e-04,NULL,NULL);
INSERT INTO "trials" VALUES(4,'t3',1,1,'scored',1,1,1,0,1.7960736856182558537e+09,1.79607368562035679812e+09,1.0,NULL,NULL,1.55390999680093955248e-04,NULL,NULL);
INSERT INTO "trials" VALUES(5,'t3',1,1,'scored',1,1,1,0,1.79607368562035679812e+09,1.7960736856272170544e+09,0.0,NULL,NULL,2.51557400042656809091e-03,NULL,NULL);
INSERT INTO "trials" VALUES(4,'t7',0,0,'scored',1,1,1,0,1.79607368562294816968e+09,1.79607368562528538699e+09,1.0,NULL,NULL,1.46418000440462492406e-04,NULL,NULL);
INSERT INTO "trials" VALUES(5,'t7',0,0,'scored',1,1,1,0,1.79607368562528538699e+09,1.79607368563625860221e+09,0.0,NULL,NULL,4.00792500022362219169e-03,NULL,NULL);
INSERT INTO "trials" VALUES(4,'t7',1,1,'scored',1,1,1,0,1.7960736856272170544e+09,1.79607368562938141823e+09,1.0,NULL,NULL,1.55952000568504445254e-04,NULL,NULL);
INSERT INTO "trials" VALUES(5,'t7',1,1,'scored',1,1,1,0,1.79607368562938141823e+09,1.79607368564052557948e+09,0.0,NULL,NULL,1.8137000006390735507e-04,NULL,NULL);
CREATE TABLE verdicts (
	run_id VARCHAR NOT NULL, 
	iteration INTEGER NOT NULL, 
	candidate_id VARCHAR NOT NULL, 
	incumbent_id VARCHAR NOT NULL, 
	candidate_evaluation INTEGER NOT NULL, 
	incumbent_evaluation INTEGER NOT NULL, 
	settings TEXT NOT NULL, 
	decision VARCHAR NOT NULL, 
	payload TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (run_id, iteration), 
	CONSTRAINT verdict_decision CHECK (decision IN ('accept', 'reject', 'indecisive')), 
	FOREIGN KEY(run_id) REFERENCES runs (id), 
	FOREIGN KEY(candidate_evaluation) REFERENCES evaluations (id), 
	FOREIGN KEY(incumbent_evaluation) REFERENCES evaluations (id)
);
INSERT INTO "verdicts" VALUES('old-1',1,'sha256:0b7eaa1d6fd14aa0643d408831414a85ada4b174fc84ebc4ffef0c7ed6a3bc40','sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce',2,1,'{"k_se":1.0,"min_coverage":0.6,"mode":"paired","multiplier":"t","no_regression":false,"threshold":0.0}','reject','{"bar":null,"decision":"reject","delta":0.0,"dropped":[],"improved":0,"n":4,"p_value":1.0,"reason":"mean paired delta +0.000 has SE 0, so the exact sign-flip test decided instead of mode paired: p 1.000 is above 0.159 over 4 tasks (0 better, 0 worse, 4 same)","rule":"sign_flip","same":4,"se":0.0,"worse":0}',1.79607368511489319798e+09);
INSERT INTO "verdicts" VALUES('old-1',2,'sha256:53a242262f2a4c07f76817fd34340359cffc88cbd2d121d0f30c3043ab152dc8','sha256:0831a24f4fc5e74078bc79cbcba3a445010acb03e5c4df85d71a6f426c050cce',3,1,'{"k_se":1.0,"min_coverage":0.6,"mode":"paired","multiplier":"t","no_regression":false,"threshold":0.0}','accept','{"bar":null,"decision":"accept","delta":1.0,"dropped":[],"improved":4,"n":4,"p_value":0.0625,"reason":"mean paired delta +1.000 has SE 0, so the exact sign-flip test decided instead of mode paired: p 0.062 is within 0.159 over 4 tasks (4 better, 0 worse, 0 same)","rule":"sign_flip","same":0,"se":0.0,"worse":0}',1.79607368533925127983e+09);
CREATE INDEX ix_events_run_id ON events (run_id);
COMMIT;
