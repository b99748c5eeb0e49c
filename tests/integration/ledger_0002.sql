BEGIN TRANSACTION;
CREATE TABLE aggregates (
	aggregate_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_aggregates PRIMARY KEY (aggregate_id)
);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE allocations (
	consumer_uuid TEXT NOT NULL, 
	provider_uuid TEXT NOT NULL, 
	amounts TEXT NOT NULL, 
	CONSTRAINT pk_allocations PRIMARY KEY (consumer_uuid, provider_uuid), 
	CONSTRAINT fk_allocations_provider_uuid FOREIGN KEY(provider_uuid) REFERENCES providers (uuid)
)
 WITHOUT ROWID

;
INSERT INTO "allocations" VALUES('696e7374-0000-4000-8000-000000000001','686f7374-0000-4000-8000-000000000001','{"VCPU":1}');
CREATE TABLE changes (
	version BIGINT NOT NULL, 
	seq INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_changes PRIMARY KEY (version, seq)
)
 WITHOUT ROWID

;
INSERT INTO "changes" VALUES(1,0,'host','{"uuid":"686f7374-0000-4000-8000-000000000001","name":"host-1","node":"host-1","hypervisor_type":"fake","hypervisor_version":0,"host_ip":"","cpu_info":{},"supported_instances":[],"stats":{},"cell":"","numa_cells":[],"pci_pools":[],"child_uuids":[],"allocation_ratios":{},"initial_ratios":{},"metrics":{}}');
INSERT INTO "changes" VALUES(1,1,'service','{"host":"host-1","service_id":"73657276-0000-4000-8000-000000000001","disabled":false,"disabled_reason":null,"forced_down":false,"last_seen_s":1700000000.0,"created_at_s":1700000000.0,"failed_builds":0,"failed_at_s":0.0,"attestations":{}}');
INSERT INTO "changes" VALUES(1,2,'provider','{"uuid":"686f7374-0000-4000-8000-000000000001","name":"host-1","parent_uuid":null,"generation":0,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"MEMORY_MB":{"total":32768,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"DISK_GB":{"total":1000,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0}},"used":{"VCPU":0,"MEMORY_MB":0,"DISK_GB":0},"traits":[]}');
INSERT INTO "changes" VALUES(2,0,'host','{"uuid":"686f7374-0000-4000-8000-000000000002","name":"host-2","node":"host-2","hypervisor_type":"fake","hypervisor_version":0,"host_ip":"","cpu_info":{},"supported_instances":[],"stats":{},"cell":"","numa_cells":[],"pci_pools":[],"child_uuids":[],"allocation_ratios":{},"initial_ratios":{},"metrics":{}}');
INSERT INTO "changes" VALUES(2,1,'service','{"host":"host-2","service_id":"73657276-0000-4000-8000-000000000002","disabled":false,"disabled_reason":null,"forced_down":false,"last_seen_s":1700000000.0,"created_at_s":1700000000.0,"failed_builds":0,"failed_at_s":0.0,"attestations":{}}');
INSERT INTO "changes" VALUES(2,2,'provider','{"uuid":"686f7374-0000-4000-8000-000000000002","name":"host-2","parent_uuid":null,"generation":0,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"MEMORY_MB":{"total":32768,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"DISK_GB":{"total":1000,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0}},"used":{"VCPU":0,"MEMORY_MB":0,"DISK_GB":0},"traits":[]}');
INSERT INTO "changes" VALUES(3,0,'flavor','{"flavor_id":"1","name":"flavor-1","vcpus":1,"memory_mb":512,"root_gb":1,"ephemeral_gb":0,"swap_mb":0,"extra_specs":{},"is_public":true,"disabled":false,"rxtx_factor":1.0,"description":null}');
INSERT INTO "changes" VALUES(4,0,'instance','{"uuid":"696e7374-0000-4000-8000-000000000001","name":"vm-1","project_id":"project-1","user_id":"user-1","request_id":"req-1","reservation_id":"r-00000001","flavor":{"flavor_id":"1","name":"flavor-1","vcpus":1,"memory_mb":512,"root_gb":1,"ephemeral_gb":0,"swap_mb":0,"extra_specs":{},"is_public":true,"disabled":false,"rxtx_factor":1.0,"description":null},"image":null,"launch_index":0,"status":"BUILD","task":"scheduling","host":"host-1","node":"host-1","assignment":null,"requested_zone":null,"forced":false,"retried":[],"alternates":[],"group_uuid":null,"hints":{},"metadata":{},"extra":{},"fault":null,"decision_id":null,"created_at_s":1700000001.0,"updated_at_s":1700000001.0,"launched_at_s":null,"terminated_at_s":null,"revision":1}');
INSERT INTO "changes" VALUES(4,1,'usage','{"provider_uuid":"686f7374-0000-4000-8000-000000000001","used":{"VCPU":1,"MEMORY_MB":0,"DISK_GB":0}}');
INSERT INTO "changes" VALUES(5,0,'provider','{"uuid":"686f7374-0000-4000-8000-000000000001","name":"host-1","parent_uuid":null,"generation":1,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"MEMORY_MB":{"total":32768,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"DISK_GB":{"total":1000,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0}},"used":{"VCPU":1,"MEMORY_MB":0,"DISK_GB":0},"traits":[]}');
CREATE TABLE claim_keys (
	"key" TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	at_s DOUBLE NOT NULL, 
	CONSTRAINT pk_claim_keys PRIMARY KEY ("key")
);
INSERT INTO "claim_keys" VALUES('claim-1',4,1.79535747512968373298e+09);
CREATE TABLE counters (
	kind TEXT NOT NULL, 
	last BIGINT NOT NULL, 
	CONSTRAINT pk_counters PRIMARY KEY (kind)
);
CREATE TABLE daybook (
	first INTEGER NOT NULL, 
	last BIGINT NOT NULL, 
	body BLOB NOT NULL, 
	CONSTRAINT pk_daybook PRIMARY KEY (first)
);
INSERT INTO "daybook" VALUES(6,6,X'78018D54BD6E1341107640F24BD0AD286D143BC10957252108451081802021844EEBDB397BC9DDDEB13FC6C1B214A0A34A425A3A1BE3F0043428120D284F90D0F11C14CCDEDE9D08026117F6CE8F67BEF9E6E7CD38E452E9EAA40752F14454C72A05A10F0E4F2FB7965BE1D2C2D2627D1E3FF545FBB56CBFAC987F1AA387D7EF6E5DB838A3F774F3C6E69D7B8FFCCDB59595712801D8DE04E25473FB9010273D60BB13932A905ABD9A72A1341501A8FD7788E65A0BFE83A6394D65F214025D6F8C7A71BD79240BACCDB18467F5E6F1C9EAE9839F2BBB95CAFB6EA2D06DBCB6B5717BBDD47E993BBBF063408CE18C7864968CA446048D01BD6D429472047E16A1848306834539AD7DD51BA8424C069476DA0C60A644738F6AEC456E288B406B18D15E228937C85FCEC506CB6138872C7C2F488D225EA34662A456EEF8719B78571B4D4C9C24DAEFA0843648BB1083A451A698AF11F59CA6992BBEA1AF25F57122020C3418D608577E6ADA110F88A7A5811A615CD17604C8574823850AD9D77D3FA481B6301B5730080315488E5D4E04F18489221B27A61D64CD4A3512512382AECF05833EF12C044DB5854EB2F660719AAA6D1455D00566222E3AA8B31D449D6BA4252061B60FA54C95E21D11E330177972BE81F92F1251660F1319FC8E1FB4C47924DEE3273542230D52500D08C6CA1D9998D477F3E1B077B9D039373168CAA8A68EA98C3AF70CA9894A100C026E172DEB9C8B1148C014CCA7DAC7508DA57CB99A963C9362C87FD81C6FA5D10543C031B7908B784E2DA197A5C5F8C3698141EDBF758B516EC0D9DCA5C1DFE712EF03E381653C8DA8250C673DC141D8F1F3C963E0EA2CF55DAABAE85EDC8AE217FFC824C770680BB92518350A6F01F17034B59D263F3F4699C682656535E7D96146BA4DC9067D1EF93AB77F1898C689711D22F654D9F2718BB2B4794FB372EC98E4B284D0281A154343B5B627CA366638C18B644FD3EB8F348A92204B8D1CCE769C663BA89F06394EE4A2BC96C46B2D0E8F8288F2D8DF861D4C39C9847AB37AB27A76FCF9EBB7EF2F2741978A0EA883C36AE54371392B87D5B93156D3815318586E7A48A5CC0798CC72E09142BC57D89B02D7C21FB86A647DE3FE2DFFE61A6EEE7038C2468ABD513B91627F365A7E01BCDD180A');
INSERT INTO "daybook" VALUES(7,8,X'78018D54CD6ED340104EB8A46F81B4E2C0C1AEEAA634C5275A8A10820A04140921646DEC71B2D45E9BFD3129512404374E84E6CA2D21B4F40138A14A5C107D82F4C8737060D6760C0821E283353FAB6FBEFD66665F4F4226A46A4C331092257C692253E06A389A5D58DF580F5BCDD69ABD829FBD667E1BE667DCF25B1D3FB87A67B75E9F8402207833853855CC1802E22483E0C554A71284922F0F19978A721FE4F01D425F5E87FF40370F53913C015FD9CE388BEDE69198176E4E043CB59B27A79BB3FB3FAE9CD46AEFBB8954F6EA646BF7C6ADED2AFAA57E76EE7B9F68CD02E292452A128B701A039E3605D12B197839424507131A2F55448D653B18424E1AA42AA239C13C88E98C2A14B64C5497C06C18D12C11C4ED975671C48095348A03397CE6A75A12D7B1488CD28A7D2F6E13F792B38A859344791DF430076917621034CA032B1691CF689A1F451B7A4A500FDBEB23507F601126BD54B723E61357090D160998A4ED0850AF90461203A2A77A5E487D65683ACB081280F405C32E279CB85C4791C189690755339E4522AAB9DFF5180FA0475C43415165A893BC3D783945E51EBAD2EF42A023C63B18331DC458D148234012983E543E959275788C9339AF53EA0D81F73CE155F53011FEEFFC41099C47E23E7A6C111A29109C2A4032C6EF8844A75E311F05F72EE3AAD426064503AA68A1542E5D618654471589007C66B626EF5C81E10BC01281479587504EABDC94A6114FA708F98F5CA15B952CC09070CC0CE5395E111690E565117F70E44794C5DE1EECCBE1C1F1F98EA62270F3AB2D9D6E9E9D7CFEFAADFD698ACB67B6F0D5471A45899FCF239E5E6C0F177B088EFAC43C057F319AE6F4EC66E31719BF4B7907E4C1A851FB307F156AA3467DA225CED12CE89BBDCB58802B365FDE055E221C1ADC456C7545C4223BD7766EDF7DE8ED6CE583B87DE3DE4DEFBAB10783D1526D422396C1EC623F9F323313C5B839C4CCCA9FDD6B2DAF0CC612800FDF168F8D735C751673E37622F87031397F02F11EC7AE');
INSERT INTO "daybook" VALUES(9,10,X'78019D544D6B1341188E450FEDCF183C6EA41BD3B4EEA9AD1529B5286A05115926B3EF26637767D7F958534340F1E6A9B5B97A4B88ADFF410A5EC482F7F6B728FACE7E848A88C13D2CF37EF03CCFBC1FF3761C72A9F4FC2403A9782216C62A05A1DF0DCFAEB6565AE1F2F5E5667D11BF7AD3FE56ECCF9AE5E78E1EDDBCB7F3736EB6EC469E7DF9CA389400C10132DC68C1BF182610A79A43B03F9110271904AF26265520B57A7DC485D254305007EF67033B4A65F20C98AEBBA32CAEBBC7B2BA8C3B96F0BCEE9E9CAE9D3DFCBEBA5AAB9D8CD77736EF6C4CEDCF73E773E77D620C0F884766114E1C22680C986DA9D02AB9FD1C612A040306AF5378ED29CF453506942EBCB934CC9380E18C6A6C531998CAC76818D12C91C4EB97A722C51297328A841C3E63A951C4731D126351E59E1FB789B7E436902349B4DF410B639076210649A3DCB1E810F582A6792A9EA1A725F571581802F5070EE1CA4F4D3BE28C785A1A7048C0156D4780F50A69A4D0217BBAE78794692BD3BD862001282639F63711C413268A2C4E4C3B58356B3924A246B0AECF45003DE259099A6A2B9DE4EDC1CB69AA76D154AC0B8189B8E8A0AF9B285D21882498A251A57847C438DF55B4AC3304FECB444CF3C244B28BBA414B9C40E23D79EA101A6990826A4011D6EEC8C4A47E311785E62E17BAAC490C9A0654D3A24279C98A63484D34151100E376F7F28E15184C0252043ED53E42B9CBD5BED9A2991421FF122BEA350D16602838E656728557B82564392DF11A8309AE92DDA9371F6914252C9F31757038D35635677A2A1AC77D621F0BE23507C72CA23CF677610F3926B9516F2E9CAE9D9F7CFAF2F5C7B709EB52D10175389CAF7DA876BC369CBF34360A67E30CFA7697321EE0DA540B39C35B858381FB856DAC84E0B86FDFDABE7BFFB1BFBD4EBC56D3211B9B0FB6FCDB682C0E06C3855AC917FC175FE30FBEA5DFF8B09317E9460A40EC8FDA8914FBBF000C9DC753');
CREATE TABLE decisions (
	request_id TEXT NOT NULL, 
	decided_at_s DOUBLE NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_decisions PRIMARY KEY (request_id)
);
INSERT INTO "decisions" VALUES('req-1',1700000001.0,'{"request_id":"req-1","verdict":"placed","policy_name":"default","policy_hash":"0000000000000000","driver":"filter","seed":1,"table_version":1,"decided_at_s":1700000001.0,"duration_us":100,"project_id":"","amounts":{"VCPU":1},"filters":[],"placements":[],"refusal":null,"attempts":1}');
CREATE TABLE flavors (
	flavor_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_flavors PRIMARY KEY (flavor_id)
);
INSERT INTO "flavors" VALUES('1','flavor-1','{"flavor_id":"1","name":"flavor-1","vcpus":1,"memory_mb":512,"root_gb":1,"ephemeral_gb":0,"swap_mb":0,"extra_specs":{},"is_public":true,"disabled":false,"rxtx_factor":1.0,"description":null}');
CREATE TABLE head (
	id INTEGER NOT NULL, 
	version BIGINT NOT NULL, 
	feed_floor BIGINT NOT NULL, 
	CONSTRAINT pk_head PRIMARY KEY (id), 
	CONSTRAINT ck_head_single_row CHECK (id = 1)
);
INSERT INTO "head" VALUES(1,10,0);
CREATE TABLE hosts (
	uuid TEXT NOT NULL, 
	name TEXT NOT NULL, 
	node TEXT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_hosts PRIMARY KEY (uuid)
);
INSERT INTO "hosts" VALUES('686f7374-0000-4000-8000-000000000001','host-1','host-1','{"uuid":"686f7374-0000-4000-8000-000000000001","name":"host-1","node":"host-1","hypervisor_type":"fake","hypervisor_version":0,"host_ip":"","cpu_info":{},"supported_instances":[],"stats":{},"cell":"","numa_cells":[],"pci_pools":[],"child_uuids":[],"allocation_ratios":{},"initial_ratios":{},"metrics":{}}');
INSERT INTO "hosts" VALUES('686f7374-0000-4000-8000-000000000002','host-2','host-2','{"uuid":"686f7374-0000-4000-8000-000000000002","name":"host-2","node":"host-2","hypervisor_type":"fake","hypervisor_version":0,"host_ip":"","cpu_info":{},"supported_instances":[],"stats":{},"cell":"","numa_cells":[],"pci_pools":[],"child_uuids":[],"allocation_ratios":{},"initial_ratios":{},"metrics":{}}');
CREATE TABLE instances (
	uuid TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	reservation_id TEXT NOT NULL, 
	request_id TEXT NOT NULL, 
	group_uuid TEXT, 
	created_at_s DOUBLE NOT NULL, 
	host TEXT, 
	status TEXT NOT NULL, 
	updated_at_s DOUBLE NOT NULL, 
	is_live BOOLEAN NOT NULL, 
	revision BIGINT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_instances PRIMARY KEY (uuid)
);
INSERT INTO "instances" VALUES('696e7374-0000-4000-8000-000000000001','project-1','vm-1','r-00000001','req-1',NULL,1700000001.0,'host-1','BUILD',1700000001.0,1,1,'{"uuid":"696e7374-0000-4000-8000-000000000001","name":"vm-1","project_id":"project-1","user_id":"user-1","request_id":"req-1","reservation_id":"r-00000001","flavor":{"flavor_id":"1","name":"flavor-1","vcpus":1,"memory_mb":512,"root_gb":1,"ephemeral_gb":0,"swap_mb":0,"extra_specs":{},"is_public":true,"disabled":false,"rxtx_factor":1.0,"description":null},"image":null,"launch_index":0,"status":"BUILD","task":"scheduling","host":"host-1","node":"host-1","assignment":null,"requested_zone":null,"forced":false,"retried":[],"alternates":[],"group_uuid":null,"hints":{},"metadata":{},"extra":{},"fault":null,"decision_id":null,"created_at_s":1700000001.0,"updated_at_s":1700000001.0,"launched_at_s":null,"terminated_at_s":null,"revision":1}');
CREATE TABLE inventories (
	provider_uuid TEXT NOT NULL, 
	resource_class TEXT NOT NULL, 
	total BIGINT NOT NULL, 
	reserved BIGINT NOT NULL, 
	min_unit BIGINT NOT NULL, 
	max_unit BIGINT NOT NULL, 
	step_size BIGINT NOT NULL, 
	allocation_ratio DOUBLE NOT NULL, 
	capacity BIGINT NOT NULL, 
	used BIGINT NOT NULL, 
	CONSTRAINT pk_inventories PRIMARY KEY (provider_uuid, resource_class), 
	CONSTRAINT ck_inventories_used_not_negative CHECK (used >= 0), 
	CONSTRAINT fk_inventories_provider_uuid FOREIGN KEY(provider_uuid) REFERENCES providers (uuid)
)
 WITHOUT ROWID

;
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000001','DISK_GB',1000,0,1,0,1,1.0,1000,0);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000001','MEMORY_MB',32768,0,1,0,1,1.0,32768,0);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000001','VCPU',8,0,1,0,1,1.0,8,1);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000002','DISK_GB',1000,0,1,0,1,1.0,1000,0);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000002','MEMORY_MB',32768,0,1,0,1,1.0,32768,0);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000002','VCPU',8,0,1,0,1,1.0,8,0);
CREATE TABLE pending_requests (
	request_id TEXT NOT NULL, 
	accepted_at_s DOUBLE NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_pending_requests PRIMARY KEY (request_id)
);
CREATE TABLE providers (
	uuid TEXT NOT NULL, 
	name TEXT NOT NULL, 
	parent_uuid TEXT, 
	generation BIGINT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_providers PRIMARY KEY (uuid)
);
INSERT INTO "providers" VALUES('686f7374-0000-4000-8000-000000000001','host-1',NULL,1,'{"uuid":"686f7374-0000-4000-8000-000000000001","name":"host-1","parent_uuid":null,"generation":1,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"MEMORY_MB":{"total":32768,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"DISK_GB":{"total":1000,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0}},"used":{"VCPU":1,"MEMORY_MB":0,"DISK_GB":0},"traits":[]}');
INSERT INTO "providers" VALUES('686f7374-0000-4000-8000-000000000002','host-2',NULL,0,'{"uuid":"686f7374-0000-4000-8000-000000000002","name":"host-2","parent_uuid":null,"generation":0,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"MEMORY_MB":{"total":32768,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"DISK_GB":{"total":1000,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0}},"used":{"VCPU":0,"MEMORY_MB":0,"DISK_GB":0},"traits":[]}');
CREATE TABLE server_groups (
	uuid TEXT NOT NULL, 
	name TEXT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_server_groups PRIMARY KEY (uuid)
);
CREATE TABLE services (
	host TEXT NOT NULL, 
	last_seen_s TEXT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_services PRIMARY KEY (host)
);
INSERT INTO "services" VALUES('host-1','1700000000.0','{"host":"host-1","service_id":"73657276-0000-4000-8000-000000000001","disabled":false,"disabled_reason":null,"forced_down":false,"last_seen_s":1700000000.0,"created_at_s":1700000000.0,"failed_builds":0,"failed_at_s":0.0,"attestations":{}}');
INSERT INTO "services" VALUES('host-2','1700000000.0','{"host":"host-2","service_id":"73657276-0000-4000-8000-000000000002","disabled":false,"disabled_reason":null,"forced_down":false,"last_seen_s":1700000000.0,"created_at_s":1700000000.0,"failed_builds":0,"failed_at_s":0.0,"attestations":{}}');
CREATE INDEX ix_claim_keys_at_s ON claim_keys (at_s);
CREATE INDEX ix_allocations_provider_uuid ON allocations (provider_uuid);
CREATE INDEX ix_instances_group_uuid ON instances (group_uuid) WHERE group_uuid IS NOT NULL;
CREATE INDEX ix_instances_host ON instances (host) WHERE host IS NOT NULL;
CREATE INDEX ix_instances_name ON instances (name);
CREATE INDEX ix_instances_newest ON instances (created_at_s, uuid) WHERE status <> 'DELETED';
CREATE INDEX ix_instances_project ON instances (project_id, created_at_s, uuid);
CREATE INDEX ix_instances_request_id ON instances (request_id);
CREATE INDEX ix_instances_reservation_id ON instances (reservation_id);
CREATE INDEX ix_instances_status ON instances (status, created_at_s, uuid);
CREATE INDEX ix_instances_updated_at_s ON instances (updated_at_s);
CREATE INDEX ix_decisions_newest ON decisions (decided_at_s, request_id);
COMMIT;
