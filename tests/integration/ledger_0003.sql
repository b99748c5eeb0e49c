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
INSERT INTO "alembic_version" VALUES('0003');
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
INSERT INTO "changes" VALUES(1,2,'provider','{"uuid":"686f7374-0000-4000-8000-000000000001","name":"host-1","parent_uuid":null,"generation":0,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"MEMORY_MB":{"total":32768,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"DISK_GB":{"total":1000,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0}},"used":{"VCPU":0,"MEMORY_MB":0,"DISK_GB":0},"traits":[],"aggregates":[],"owned_traits":null,"owned_classes":null,"created_at_s":0.0,"updated_at_s":0.0}');
INSERT INTO "changes" VALUES(2,0,'host','{"uuid":"686f7374-0000-4000-8000-000000000002","name":"host-2","node":"host-2","hypervisor_type":"fake","hypervisor_version":0,"host_ip":"","cpu_info":{},"supported_instances":[],"stats":{},"cell":"","numa_cells":[],"pci_pools":[],"child_uuids":[],"allocation_ratios":{},"initial_ratios":{},"metrics":{}}');
INSERT INTO "changes" VALUES(2,1,'service','{"host":"host-2","service_id":"73657276-0000-4000-8000-000000000002","disabled":false,"disabled_reason":null,"forced_down":false,"last_seen_s":1700000000.0,"created_at_s":1700000000.0,"failed_builds":0,"failed_at_s":0.0,"attestations":{}}');
INSERT INTO "changes" VALUES(2,2,'provider','{"uuid":"686f7374-0000-4000-8000-000000000002","name":"host-2","parent_uuid":null,"generation":0,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"MEMORY_MB":{"total":32768,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"DISK_GB":{"total":1000,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0}},"used":{"VCPU":0,"MEMORY_MB":0,"DISK_GB":0},"traits":[],"aggregates":[],"owned_traits":null,"owned_classes":null,"created_at_s":0.0,"updated_at_s":0.0}');
INSERT INTO "changes" VALUES(3,0,'instance','{"uuid":"696e7374-0000-4000-8000-000000000001","name":"vm-1","project_id":"project-1","user_id":"user-1","request_id":"req-1","reservation_id":"r-00000001","flavor":{"flavor_id":"1","name":"flavor-1","vcpus":1,"memory_mb":512,"root_gb":1,"ephemeral_gb":0,"swap_mb":0,"extra_specs":{},"is_public":true,"disabled":false,"rxtx_factor":1.0,"description":null},"image":null,"launch_index":0,"status":"BUILD","task":"scheduling","host":"host-1","node":"host-1","assignment":null,"requested_zone":null,"forced":false,"retried":[],"alternates":[],"group_uuid":null,"hints":{},"metadata":{},"extra":{},"fault":null,"decision_id":null,"created_at_s":1700000001.0,"updated_at_s":1700000001.0,"launched_at_s":null,"terminated_at_s":null,"revision":1}');
INSERT INTO "changes" VALUES(3,1,'usage','{"provider_uuid":"686f7374-0000-4000-8000-000000000001","used":{"VCPU":1,"MEMORY_MB":0,"DISK_GB":0},"generation":1}');
CREATE TABLE claim_keys (
	"key" TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	at_s DOUBLE NOT NULL, 
	CONSTRAINT pk_claim_keys PRIMARY KEY ("key")
);
INSERT INTO "claim_keys" VALUES('claim-1',3,1.79536685328620123866e+09);
CREATE TABLE consumers (
	uuid TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	generation BIGINT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_consumers PRIMARY KEY (uuid)
);
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
INSERT INTO "daybook" VALUES(4,4,X'78018D544F4F13411407E9B7F036F1D81A5A11704F8218439468504C8C319B61E76D3BB23BBBCE9FB5D834217AF44295AB376A05BE0489070F7C0238FA0DBC7BF0CDCCEE2A89C6F6D0CE7B6FFA7BBFF9BD3FEFC731974A37260548C533D118AB1C841E1D9C5F5B5C5E8C976E2C2DB4E6F1D35AB05FCBF6CB9AE5A773F8F4CEA3ADB9B9712C01D8FE04D25C737B90906605B0BD89C91548ADDE1E71A1341511A8D12784BEB508FF833ECA65F61222DD6A1F1669AB732CABC49DB18457ADCEE9D9CAF9939FB7F766663EF732A55B9DF1EAD6FA83B5DAFB75F6E2CAF701318633129069329226113405BC6D13A25532081D424D0703061FE5BDF6D46AA30B391950DA7B1D41E7C47041350A5B06EA4760344E689149120CCA93BF62C14A1AFE82832FA2DC2812B49B244569E56E986E93E066BB8389B34C875DB43006790F529034718EF92651AF69EEAEE219FA5AD210CB1B21D060D8245C85B9D94E7844022D0D3409E38A6E27807AC53451E8907DDD0F631A694BB37D1D4118A84872AC722648204C92589C947651356B3549428D887A21170CFA24B01434D5963A71E5C1C769AA76D054510F9849B8E8A2CF56107DBE9056808CD93AD436558A77458A9D59E529F50616BEC9449D3DCE64F4277FD012FB9104CF5F34094D3448413520196B776566F2D0F787E7DEE34297DAA4A029A39A7AA59C74FE185393D4241844DC4E8DAB9CC78824600A16521D22547BA99A142B9EC911F21F31AF5B1DF4604838E5967285E7DD120A9716F18747150735FAE807A39E808BD9AB83BFF7250E3BE391553C4FA8150C7B3DC346D80DCBCE63E0DF59FB7B54F5F07A35F8D52FFE91498E70188BB915183D0A770109B035B5EDA6B0DC2CCE63C9B2FA3597D56146FA49718D3E8F7A5D9A3F04A669667C8588DD3BF6F938452E6D5953F71CDB26A52D21368A2655D350ADED8AB285194E7023D9D5F4EE84264916B9D4A8E174CB69BAED783C2879DE181E4709E569B803BB9863E28C56A771B67271FAEDC7662127518F8A2EA80F078D992FD5AA9C3968CC8E917E17CED5C08A51A076B2EC5832CD7A46CD704161316A224DB27177E3E1E6B37063D54DE7DAFAE3FBE13D7B4629BB207079F8D96E0F0FB18E62FF703B9362349D2A27BF01D468F61746AB117B');
INSERT INTO "daybook" VALUES(5,6,X'7801AD54CB6ED340144D03E543462C13542725295EB5940A55A805D1520921644DECEB64C01E9B799894281262CBA62F96EC9286B6DF8084C4922F085B7E830577FC6A25449502595873EF9D9C7BE6DCC7FBB1CF8454F39304846411BF31963170757034BDD95A6AF9ED667BB1BE80BFFAA2F92C998F31F39F35DA597DF4A47A6DB6DB8DF4F6DCF5B12F00BCBD0984B162E620208C12F0DE4E742C4128F9EEC48DB8D42152DAFF80449A2DBF05EDE665444E6211BD0057D5AD638D18756B6EFA7940B4661EB1C92C00A446720827FD4F898701839879336C7415041DB51B03A658DFDCDA5ED95C5DC350173808AA504C625B78530055E0395439121DED42BA5B0B081C7B7F880D4F18978A7217E4FE4794E08E11E0F25A9C4B304AC2BA752A8A4A596301AFEAD6976F2BD3ED9FCBCB95CA712F9246A995D5EDF59DB5D2FDB5FABDFAE35CB41952E26B390DCDFB4D46B4AE222192D22055266CCA100104A0D649AA5E1E285F81513FA04924883DC84FD9159338A7915D48A9246EAC8DE03512627B895D27EC10FBB6D5C01C51A49C2E5A1883B807D86734481D5812F99AC6E9553C435F09EAE040B8083418D608934EAC3B017389AD84861AF198A49D00B0C97C1A487488BEEA3B3E7595A169991A7B205DC1B0D34D3F701D040627A45D54CD58351250CDDD9EC3B8077D621B0A8A2A439D64F5C1D7292A5FA22DDD1E783A60BC8B3E5343F465A5340A449E294469532959978738CC45A25C70ECC537112FD3FB91702F3E0094C0A124F6B3E73542030582638B221B637745A463279BAA8C7C8F71958B1382A2D8CE34932AD52E3BFA540725090F5C66164D5ABA0CE3EF26A410AE1CAD0C0C0987CC502E262E730B48D2B4C46E0C27385AE99A39A34110B969B3C983C3D916CD6C7BF17440CC6634D9FE276EA3C4B58613B7477917E4E1D17C65AC2536D4540ECC0026CCC37555ACBE199638360FEE352C7941BA59231B6B1B0F1F3F7536EEA61D796F7DEB8173DF9CB1792FEEB7C6F0687EEE9FB2377ECBBE7895EC372A9F8A4559194900BE37EA4482EF9D9DB39407D5EA2F4E2C23C2');
INSERT INTO "daybook" VALUES(7,8,X'7801ED55BD6FD340144FBBB4FF05D289D1A912525AF044110B1213820921EB727E718E9EEFCCDDD9A45495408C2CA9DA0989AD51684102B1B0466260E85FD0FC17EC0CBCF3D9E9A7506144F560BD0FDFBBF7F1FB3DBF1DF5B83676615C80365CC9C591C940DAE1A8A701E2E118D2CC722768485501F1AB719E19D0D6BCF982DFC55C269186E739186BB6774628363B876B478F7EDD99341AD3F97093545E722C463C26A1B3373B24205C1A4B258328CF796C48F884ACDC5E81D5CEEA72B3854F73D9BD6EB99753ABA7439E06A42768A1B40BEC251FB78D31254D01AFF0E6A6B3142CCB31783B2029D6A137A2B44BC29BED1B01D14AD928410D7D90F521054D45696805C4BCA059F929CA30B09A46D81D868136B7307313657957704642AB730848CC0DED0AC0EA7A541834E8811D443DCAAC4BB3BD844162304C736CA9922494B9101827D3EA1930EBD3AF9432E91C1BEDAD4E2A4D3CA50996E64E068416940BDAE582DB8DE8A59233479F4B5B2599689567656FEB539882E5921EA7809524526988FA0AA7881370BD551A4772CE20159EF65F68B01A81E1152A2C688C593B55865DF43710A6011D3803A37217948110381C829553C620B31047D44618B6BD5A8F77A9B5B55F03C36CBF3FBA7E194CECCF7AB757A4CDCE81AE11D3F1B89CCC803919DD7D7CFFC1BD99FE7D6E3A3FDD240E8198D965EE3A0699BB0AB5BF19624589D33CD080332ECAA6558E59FA18FE7FC1FA29FC0A9A4BD68FB88C61404247374BADA32929C783655B6AD65135AC0F712E70D9A0CD81B2C6B2C3632D536310C7292EAFDA52F519F175921C25B44F70F44F383ECF9E13D44AC1D2985AEAB741B91EBCD8A3B998251103E36EB19643F5BCF58CB808F501C9330C79212302E2FB3573FA6048BCD4D1F98C5943515E8BACDA3A6082F2345A870DDCD19FAE2539D5715896B678B8369DFCF8F9F0DDD731D2CDADF5D763D6A73201B3B3BBD0F87C66C55F2DF4AB851EFEEB42DF5D98FB50EFF4C6EE626344052FE0DB6649E8EAA7E2FF032D5CFF7B06400EF7BA4ACBEDCBADFF8F09C8EAAF6386BF018AEDFEBE');
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
CREATE TABLE head (
	id INTEGER NOT NULL, 
	version BIGINT NOT NULL, 
	feed_floor BIGINT NOT NULL, 
	CONSTRAINT pk_head PRIMARY KEY (id), 
	CONSTRAINT ck_head_single_row CHECK (id = 1)
);
INSERT INTO "head" VALUES(1,8,0);
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
	used BIGINT NOT NULL, generation BIGINT DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_inventories PRIMARY KEY (provider_uuid, resource_class), 
	CONSTRAINT ck_inventories_used_not_negative CHECK (used >= 0), 
	CONSTRAINT fk_inventories_provider_uuid FOREIGN KEY(provider_uuid) REFERENCES providers (uuid)
)
 WITHOUT ROWID

;
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000001','DISK_GB',1000,0,1,0,1,1.0,1000,0,1);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000001','MEMORY_MB',32768,0,1,0,1,1.0,32768,0,1);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000001','VCPU',8,0,1,0,1,1.0,8,1,1);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000002','DISK_GB',1000,0,1,0,1,1.0,1000,0,0);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000002','MEMORY_MB',32768,0,1,0,1,1.0,32768,0,0);
INSERT INTO "inventories" VALUES('686f7374-0000-4000-8000-000000000002','VCPU',8,0,1,0,1,1.0,8,0,0);
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
INSERT INTO "providers" VALUES('686f7374-0000-4000-8000-000000000001','host-1',NULL,0,'{"uuid":"686f7374-0000-4000-8000-000000000001","name":"host-1","parent_uuid":null,"generation":0,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"MEMORY_MB":{"total":32768,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"DISK_GB":{"total":1000,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0}},"used":{"VCPU":0,"MEMORY_MB":0,"DISK_GB":0},"traits":[],"aggregates":[],"owned_traits":null,"owned_classes":null,"created_at_s":0.0,"updated_at_s":0.0}');
INSERT INTO "providers" VALUES('686f7374-0000-4000-8000-000000000002','host-2',NULL,0,'{"uuid":"686f7374-0000-4000-8000-000000000002","name":"host-2","parent_uuid":null,"generation":0,"inventories":{"VCPU":{"total":8,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"MEMORY_MB":{"total":32768,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0},"DISK_GB":{"total":1000,"reserved":0,"min_unit":1,"max_unit":0,"step_size":1,"allocation_ratio":1.0}},"used":{"VCPU":0,"MEMORY_MB":0,"DISK_GB":0},"traits":[],"aggregates":[],"owned_traits":null,"owned_classes":null,"created_at_s":0.0,"updated_at_s":0.0}');
CREATE TABLE resource_classes (
	name TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_resource_classes PRIMARY KEY (name)
);
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
CREATE TABLE traits (
	name TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	body TEXT NOT NULL, 
	CONSTRAINT pk_traits PRIMARY KEY (name)
);
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
CREATE INDEX ix_consumers_project ON consumers (project_id, user_id);
COMMIT;
