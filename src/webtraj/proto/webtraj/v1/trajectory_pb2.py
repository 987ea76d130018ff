"""The messages of trajectory.proto.

Written by scripts/compile_proto.py; not to be edited.
"""

# ruff: noqa

from google.protobuf import descriptor_pool, duration_pb2, message_factory, timestamp_pb2
from google.protobuf.internal import enum_type_wrapper

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(
    b"\n\x1bwebtraj/v1/trajectory.proto\x12\nwebtraj.v1\x1a\x1egoogle/protobuf/d"
    b'uration.proto\x1a\x1fgoogle/protobuf/timestamp.proto"\xb6\x04\n\x0eTrajector'
    b"yData\x12\x13\n\x06domain\x18\x01 \x01(\tH\x01\x88\x01\x01\x12\x11\n\x04goal\x18\x02 \x01(\tH\x02\x88\x01\x01\x12'\n\x07actions\x18\x03 \x03"
    b"(\x0b2\x16.webtraj.v1.ActionData\x12;\n\x07success\x18\x04 \x01(\x0b2(.webtraj.v1.Tra"
    b"jectoryData.ResultSuccessH\x00\x12;\n\x07failure\x18\x05 \x01(\x0b2(.webtraj.v1.Tr"
    b"ajectoryData.ResultFailureH\x00\x12(\n\x07webtraj\x18\x0f \x01(\x0b2\x17.webtraj.v1.E"
    b"pisodeData\x1a\x1f\n\rResultSuccess\x12\x0e\n\x06answer\x18\x01 \x01(\t\x1a\xef\x01\n\rResultFailur"
    b"e\x12P\n\x0ffailure_message\x18\x01 \x01(\x0e27.webtraj.v1.TrajectoryData.Resul"
    b'tFailure.FailureMessage"\x8b\x01\n\x0eFailureMessage\x12\x1f\n\x1bFAILURE_MESSAG'
    b"E_UNSPECIFIED\x10\x00\x12\x11\n\rUNKNOWN_ERROR\x10\x01\x12\x16\n\x12MAX_STEPS_EXCEEDED\x10\x02\x12\x15"
    b"\n\x11REPORT_INFEASIBLE\x10\x03\x12\x16\n\x12REPETITIVE_ACTIONS\x10\x04B\x08\n\x06resultB\t\n\x07_"
    b'domainB\x07\n\x05_goal"\xd3\x02\n\nActionData\x12\n\n\x02id\x18\x01 \x01(\t\x12\x0e\n\x06domain\x18\x02 \x01(\t\x12*'
    b"\n\x0cbefore_state\x18\x03 \x01(\x0b2\x14.webtraj.v1.WebState\x12)\n\x0bafter_state\x18\x04 "
    b"\x01(\x0b2\x14.webtraj.v1.WebState\x12+\n\x0bagent_state\x18\x05 \x01(\x0b2\x16.webtraj.v1."
    b"AgentState\x12\x18\n\x10playwright_trace\x18\x06 \x01(\x0c\x128\n\x12browser_gym_action\x18\x07"
    b" \x01(\x0b2\x1c.webtraj.v1.BrowserGymAction\x12*\n\x06action\x18\x08 \x01(\x0b2\x1a.webtraj"
    b'.v1.RecordedAction\x12%\n\x07webtraj\x18\x0f \x01(\x0b2\x14.webtraj.v1.StepData")\n'
    b'\x10BrowserGymAction\x12\x15\n\raction_string\x18\x01 \x01(\t"\x80\x01\n\x0eRecordedAction\x12'
    b"\x13\n\x0bdescription\x18\x01 \x01(\t\x12(\n\nraw_events\x18\x02 \x03(\x0b2\x14.webtraj.v1.RawEve"
    b'nt\x12/\n\x0cbefore_state\x18\x03 \x01(\x0b2\x19.webtraj.v1.RecordedState"1\n\x08RawEv'
    b'ent\x12%\n\x05mouse\x18\x01 \x01(\x0b2\x16.webtraj.v1.MouseEvent"4\n\nMouseEvent\x12\x12\n\n'
    b'viewport_x\x18\x01 \x01(\x01\x12\x12\n\nviewport_y\x18\x02 \x01(\x01"@\n\rRecordedState\x12\x16\n\x0evie'
    b'wport_width\x18\x01 \x01(\x01\x12\x17\n\x0fviewport_height\x18\x02 \x01(\x01"\xb9\x01\n\x08WebState\x12\x13\n\x0bf'
    b"ingerprint\x18\x01 \x01(\t\x12\x10\n\x03url\x18\x02 \x01(\tH\x00\x88\x01\x01\x12&\n\x08viewport\x18\x03 \x01(\x0b2\x14.webtr"
    b"aj.v1.Viewport\x12B\n\x17browser_gym_observation\x18\x05 \x01(\x0b2!.webtraj.v1"
    b'.BrowserGymObservationB\x06\n\x04_urlJ\x04\x08\x04\x10\x05R\x0croot_element"a\n\x08Viewpo'
    b"rt\x12,\n\nscreenshot\x18\x01 \x01(\x0b2\x18.webtraj.v1.DocumentBlob\x12'\n\rviewport"
    b'_rect\x18\x02 \x01(\x0b2\x10.webtraj.v1.Rect"2\n\x0cDocumentBlob\x12\x11\n\tmime_type\x18\x01'
    b' \x01(\t\x12\x0f\n\x07content\x18\x02 \x01(\x0c";\n\x04Rect\x12\t\n\x01x\x18\x01 \x01(\x01\x12\t\n\x01y\x18\x02 \x01(\x01\x12\r\n\x05width'
    b'\x18\x03 \x01(\x01\x12\x0e\n\x06height\x18\x04 \x01(\x01"\xcf\x05\n\x15BrowserGymObservation\x12\x13\n\x06reward\x18\x01'
    b" \x01(\x01H\x00\x88\x01\x01\x12\x11\n\ttruncated\x18\x02 \x01(\x08\x12\x12\n\nterminated\x18\x03 \x01(\x08\x12D\n\rchat_mes"
    b"sages\x18\x04 \x03(\x0b2-.webtraj.v1.BrowserGymObservation.ChatMessage\x12\x18"
    b"\n\x0blegacy_goal\x18\x05 \x01(\tH\x01\x88\x01\x01\x12%\n\x05goals\x18\x06 \x03(\x0b2\x16.webtraj.v1.LLMCont"
    b"ent\x12\x17\n\x0fopen_pages_urls\x18\x07 \x03(\t\x12\x19\n\x11active_page_index\x18\x08 \x01(\x03\x12\x10\n\x03d"
    b"om\x18\t \x01(\x0cH\x02\x88\x01\x01\x12\x13\n\x06axtree\x18\n \x01(\x0cH\x03\x88\x01\x01\x12%\n\x18extra_element_properti"
    b"es\x18\x0b \x01(\x0cH\x04\x88\x01\x01\x12 \n\x13focused_element_bid\x18\x0c \x01(\tH\x05\x88\x01\x01\x12\x18\n\x0blast_acti"
    b"on\x18\r \x01(\tH\x06\x88\x01\x01\x12\x1e\n\x11last_action_error\x18\x0e \x01(\tH\x07\x88\x01\x01\x12/\n\x0celapsed_tim"
    b"e\x18\x0f \x01(\x0b2\x19.google.protobuf.Duration\x1a[\n\x0bChatMessage\x12\x0c\n\x04role\x18\x01 "
    b"\x01(\t\x12-\n\ttimestamp\x18\x02 \x01(\x0b2\x1a.google.protobuf.Timestamp\x12\x0f\n\x07messag"
    b"e\x18\x03 \x01(\tB\t\n\x07_rewardB\x0e\n\x0c_legacy_goalB\x06\n\x04_domB\t\n\x07_axtreeB\x1b\n\x19_ex"
    b"tra_element_propertiesB\x16\n\x14_focused_element_bidB\x0e\n\x0c_last_acti"
    b'onB\x14\n\x12_last_action_error"\xca\x01\n\nAgentState\x124\n\x10llm_interactions\x18'
    b"\x01 \x03(\x0b2\x1a.webtraj.v1.LLMInteraction\x12\x13\n\x06memory\x18\x02 \x01(\tH\x00\x88\x01\x01\x12;\n\x1bpr"
    b"evious_failed_agent_state\x18\x03 \x01(\x0b2\x16.webtraj.v1.AgentState\x12)\n\x07w"
    b'ebtraj\x18\x0f \x01(\x0b2\x18.webtraj.v1.DecisionDataB\t\n\x07_memory"\xe2\x01\n\x0eLLMInt'
    b"eraction\x12\x19\n\x0cmodel_family\x18\x01 \x01(\tH\x00\x88\x01\x01\x12\x17\n\nmodel_name\x18\x02 \x01(\tH\x01\x88\x01\x01"
    b"\x12,\n\x0cllm_messages\x18\x03 \x03(\x0b2\x16.webtraj.v1.LLMMessage\x12\x15\n\x08response\x18\x04"
    b" \x01(\tH\x02\x88\x01\x01\x12*\n\x07webtraj\x18\x0f \x01(\x0b2\x19.webtraj.v1.ModelCallDataB\x0f\n\r_mo"
    b'del_familyB\r\n\x0b_model_nameB\x0b\n\t_response"\x83\x01\n\nLLMMessage\x12\x0c\n\x04rol'
    b"e\x18\x01 \x01(\t\x12,\n\x0cllm_contents\x18\x02 \x03(\x0b2\x16.webtraj.v1.LLMContent\x12\x17\n\x0fcon"
    b'tent_is_list\x18\x0e \x01(\x08\x12 \n\x05exact\x18\x0f \x01(\x0b2\x11.webtraj.v1.Value"<\n\nLLMC'
    b'ontent\x12\x0e\n\x04text\x18\x01 \x01(\tH\x00\x12\x13\n\timage_url\x18\x02 \x01(\tH\x00B\t\n\x07content"\xa3\x04\n\x05V'
    b"alue\x12\x14\n\nnull_value\x18\x01 \x01(\x08H\x00\x12\x14\n\nbool_value\x18\x02 \x01(\x08H\x00\x12\x13\n\tint_valu"
    b"e\x18\x03 \x01(\x12H\x00\x12\x14\n\nuint_value\x18\x04 \x01(\x04H\x00\x12\x16\n\x0cdouble_value\x18\x05 \x01(\x01H\x00\x12\x16\n\x0cs"
    b"tring_value\x18\x06 \x01(\tH\x00\x12\x15\n\x0bbytes_value\x18\x07 \x01(\x0cH\x00\x12+\n\nlist_value\x18\x08 \x01"
    b"(\x0b2\x15.webtraj.v1.ListValueH\x00\x12)\n\tmap_value\x18\t \x01(\x0b2\x14.webtraj.v1."
    b"MapValueH\x00\x12,\n\x0btuple_value\x18\n \x01(\x0b2\x15.webtraj.v1.ListValueH\x00\x12/\n\x0c"
    b"record_value\x18\x0b \x01(\x0b2\x17.webtraj.v1.RecordValueH\x00\x12-\n\x0barray_value"
    b"\x18\x0c \x01(\x0b2\x16.webtraj.v1.ArrayValueH\x00\x12)\n\nblob_value\x18\r \x01(\x0b2\x13.webtr"
    b"aj.v1.BlobRefH\x00\x12)\n\ntext_value\x18\x0e \x01(\x0b2\x13.webtraj.v1.BlobRefH\x00\x12\x14"
    b'\n\njson_value\x18\x0f \x01(\x0cH\x00\x12"\n\x05place\x18\x10 \x01(\x0e2\x11.webtraj.v1.PlaceH\x00B\x06\n\x04'
    b'kind".\n\tListValue\x12!\n\x06values\x18\x01 \x03(\x0b2\x11.webtraj.v1.Value";\n\x08MapV'
    b'alue\x12\x0c\n\x04keys\x18\x01 \x03(\t\x12!\n\x06values\x18\x02 \x03(\x0b2\x11.webtraj.v1.Value">\n\x0bRec'
    b'ordValue\x12\x0c\n\x04type\x18\x01 \x01(\t\x12!\n\x06fields\x18\x02 \x01(\x0b2\x11.webtraj.v1.Value"i\n'
    b"\nArrayValue\x12\r\n\x05dtype\x18\x01 \x01(\t\x12\r\n\x05shape\x18\x02 \x03(\x04\x12\x10\n\x06inline\x18\x03 \x01(\x0cH\x00\x12"
    b'#\n\x04blob\x18\x04 \x01(\x0b2\x13.webtraj.v1.BlobRefH\x00B\x06\n\x04data"4\n\x07BlobRef\x12\x0e\n\x06s'
    b'ha256\x18\x01 \x01(\x0c\x12\x0b\n\x03ext\x18\x02 \x01(\t\x12\x0c\n\x04size\x18\x03 \x01(\x04"M\n\x0bExtraFields\x12\x0c\n\x04key'
    b's\x18\x01 \x03(\t\x12!\n\x06values\x18\x02 \x03(\x0b2\x11.webtraj.v1.Value\x12\r\n\x05order\x18\x03 \x03(\t"\x8e\x02'
    b"\n\x0bEpisodeData\x12\x16\n\x0eschema_version\x18\x01 \x01(\x03\x12%\n\x04info\x18\x02 \x01(\x0b2\x17.webtra"
    b"j.v1.EpisodeInfo\x12\x17\n\nstart_time\x18\x03 \x01(\x01H\x00\x88\x01\x01\x12\x15\n\x08end_time\x18\x04 \x01(\x01H"
    b"\x01\x88\x01\x01\x12#\n\x03end\x18\x05 \x01(\x0b2\x16.webtraj.v1.EpisodeEnd\x12'\n\x05blobs\x18\x06 \x03(\x0b2\x18.w"
    b"ebtraj.v1.DocumentBlob\x12&\n\x05extra\x18\x0f \x01(\x0b2\x17.webtraj.v1.ExtraFiel"
    b'dsB\r\n\x0b_start_timeB\x0b\n\t_end_time"\xc9\x03\n\x0bEpisodeInfo\x12\x17\n\nepisode_id'
    b"\x18\x01 \x01(\tH\x00\x88\x01\x01\x12\x11\n\x04task\x18\x02 \x01(\tH\x01\x88\x01\x01\x12\x11\n\x04seed\x18\x03 \x01(\x12H\x02\x88\x01\x01\x12\x18\n\x0benviron"
    b"ment\x18\x04 \x01(\tH\x03\x88\x01\x01\x12#\n\x08versions\x18\x05 \x01(\x0b2\x11.webtraj.v1.Value\x12\x13\n\x06poli"
    b"cy\x18\x06 \x01(\tH\x04\x88\x01\x01\x12\x15\n\x08group_id\x18\x07 \x01(\tH\x05\x88\x01\x01\x12\x14\n\x07attempt\x18\x08 \x01(\x12H\x06\x88\x01\x01\x12\x1e"
    b"\n\x11parent_episode_id\x18\t \x01(\tH\x07\x88\x01\x01\x12\x15\n\x08retry_of\x18\n \x01(\tH\x08\x88\x01\x01\x12#\n\x08met"
    b"adata\x18\x0b \x01(\x0b2\x11.webtraj.v1.Value\x12&\n\x05extra\x18\x0f \x01(\x0b2\x17.webtraj.v1.E"
    b"xtraFieldsB\r\n\x0b_episode_idB\x07\n\x05_taskB\x07\n\x05_seedB\x0e\n\x0c_environmentB"
    b"\t\n\x07_policyB\x0b\n\t_group_idB\n\n\x08_attemptB\x14\n\x12_parent_episode_idB\x0b\n"
    b'\t_retry_of"\x96\x03\n\x08StepData\x12\x12\n\x05index\x18\x01 \x01(\x12H\x00\x88\x01\x01\x12,\n\tstep_type\x18\x02 \x01'
    b"(\x0e2\x14.webtraj.v1.StepTypeH\x01\x88\x01\x01\x12&\n\x0bobservation\x18\x03 \x01(\x0b2\x11.webtraj"
    b".v1.Value\x12!\n\x06action\x18\x04 \x01(\x0b2\x11.webtraj.v1.Value\x12!\n\x06reward\x18\x05 \x01(\x0b"
    b"2\x11.webtraj.v1.Value\x12#\n\x08discount\x18\x06 \x01(\x0b2\x11.webtraj.v1.Value\x12\x17\n\n"
    b"start_time\x18\x07 \x01(\x01H\x02\x88\x01\x01\x12\x15\n\x08end_time\x18\x08 \x01(\x01H\x03\x88\x01\x01\x12)\n\x0eignored_acti"
    b"on\x18\t \x01(\x0b2\x11.webtraj.v1.Value\x12&\n\x05extra\x18\x0f \x01(\x0b2\x17.webtraj.v1.Extr"
    b'aFieldsB\x08\n\x06_indexB\x0c\n\n_step_typeB\r\n\x0b_start_timeB\x0b\n\t_end_time"'
    b"\xca\x01\n\x0cDecisionData\x12!\n\x06action\x18\x01 \x01(\x0b2\x11.webtraj.v1.Value\x12\x14\n\x07thoug"
    b"ht\x18\x02 \x01(\tH\x00\x88\x01\x01\x12\x18\n\x0bparse_error\x18\x03 \x01(\tH\x01\x88\x01\x01\x12#\n\x08metadata\x18\x04 \x01(\x0b2\x11."
    b"webtraj.v1.Value\x12&\n\x05extra\x18\x0f \x01(\x0b2\x17.webtraj.v1.ExtraFieldsB\n\n\x08"
    b'_thoughtB\x0e\n\x0c_parse_error"\xb3\x03\n\rModelCallData\x12\x1b\n\x0epolicy_version'
    b"\x18\x01 \x01(\tH\x00\x88\x01\x01\x12#\n\x08sampling\x18\x02 \x01(\x0b2\x11.webtraj.v1.Value\x12#\n\x08response"
    b"\x18\x03 \x01(\x0b2\x11.webtraj.v1.Value\x12\x1a\n\rfinish_reason\x18\x04 \x01(\tH\x01\x88\x01\x01\x12 \n\x05usa"
    b"ge\x18\x05 \x01(\x0b2\x11.webtraj.v1.Value\x12\x18\n\x10prompt_token_ids\x18\x06 \x03(\x03\x12\x1c\n\x14com"
    b"pletion_token_ids\x18\x07 \x03(\x03\x12\x10\n\x08logprobs\x18\x08 \x03(\x01\x12\x17\n\nstart_time\x18\t \x01("
    b"\x01H\x02\x88\x01\x01\x12\x14\n\x07latency\x18\n \x01(\x01H\x03\x88\x01\x01\x12\x12\n\x05error\x18\x0b \x01(\tH\x04\x88\x01\x01\x12&\n\x05extra\x18\x0f "
    b"\x01(\x0b2\x17.webtraj.v1.ExtraFieldsB\x11\n\x0f_policy_versionB\x10\n\x0e_finish_r"
    b'easonB\r\n\x0b_start_timeB\n\n\x08_latencyB\x08\n\x06_error"\xdc\x03\n\nEpisodeEnd\x12*\n'
    b"\x06reason\x18\x01 \x01(\x0e2\x15.webtraj.v1.EndReasonH\x00\x88\x01\x01\x12%\n\x05phase\x18\x02 \x01(\x0e2\x11.w"
    b"ebtraj.v1.PhaseH\x01\x88\x01\x01\x12\x13\n\x06detail\x18\x03 \x01(\tH\x02\x88\x01\x01\x12$\n\x05error\x18\x04 \x01(\x0b2\x15.w"
    b"ebtraj.v1.ErrorInfo\x12\x1d\n\x10action_in_flight\x18\x05 \x01(\x08H\x03\x88\x01\x01\x12+\n\x10in_fli"
    b"ght_action\x18\x06 \x01(\x0b2\x11.webtraj.v1.Value\x122\n\x12in_flight_decision\x18\x07 "
    b"\x01(\x0b2\x16.webtraj.v1.AgentState\x12)\n\x07outcome\x18\x08 \x01(\x0e2\x13.webtraj.v1.Ou"
    b"tcomeH\x04\x88\x01\x01\x12\x12\n\nviolations\x18\t \x03(\t\x12\x18\n\x10recording_errors\x18\n \x03(\t\x12&\n\x05"
    b"extra\x18\x0f \x01(\x0b2\x17.webtraj.v1.ExtraFieldsB\t\n\x07_reasonB\x08\n\x06_phaseB\t\n"
    b'\x07_detailB\x13\n\x11_action_in_flightB\n\n\x08_outcome"\x97\x01\n\tErrorInfo\x12\x11\n\x04t'
    b"ype\x18\x01 \x01(\tH\x00\x88\x01\x01\x12\x14\n\x07message\x18\x02 \x01(\tH\x01\x88\x01\x01\x12\x16\n\ttraceback\x18\x03 \x01(\tH\x02\x88\x01\x01"
    b"\x12&\n\x05extra\x18\x0f \x01(\x0b2\x17.webtraj.v1.ExtraFieldsB\x07\n\x05_typeB\n\n\x08_messag"
    b"eB\x0c\n\n_traceback*\xf1\x01\n\x05Place\x12\x11\n\rPLACE_UNKNOWN\x10\x00\x12\x17\n\x13PLACE_ACTION"
    b"_STRING\x10\x01\x12\r\n\tPLACE_URL\x10\x02\x12\x15\n\x11PLACE_LEGACY_GOAL\x10\x03\x12\x1d\n\x19PLACE_FOC"
    b"USED_ELEMENT_BID\x10\x04\x12\x15\n\x11PLACE_LAST_ACTION\x10\x05\x12\x1b\n\x17PLACE_LAST_ACTI"
    b'ON_ERROR\x10\x06\x12\r\n\tPLACE_DOM\x10\x07\x12\x10\n\x0cPLACE_AXTREE\x10\x08\x12"\n\x1ePLACE_EXTRA_E'
    b"LEMENT_PROPERTIES\x10\t*]\n\x08StepType\x12\x15\n\x11STEP_TYPE_UNKNOWN\x10\x00\x12\x13\n\x0fST"
    b"EP_TYPE_FIRST\x10\x01\x12\x11\n\rSTEP_TYPE_MID\x10\x02\x12\x12\n\x0eSTEP_TYPE_LAST\x10\x03*\xd5\x01\n\tE"
    b"ndReason\x12\x16\n\x12END_REASON_UNKNOWN\x10\x00\x12\x19\n\x15END_REASON_TERMINATED\x10\x01\x12"
    b"\x18\n\x14END_REASON_TRUNCATED\x10\x02\x12\x1a\n\x16END_REASON_INTERRUPTED\x10\x03\x12\x15\n\x11END"
    b"_REASON_CLOSED\x10\x04\x12\x16\n\x12END_REASON_ERRORED\x10\x05\x12\x18\n\x14END_REASON_CANCE"
    b"LLED\x10\x06\x12\x16\n\x12END_REASON_CRASHED\x10\x07*p\n\x05Phase\x12\x11\n\rPHASE_UNKNOWN\x10\x00\x12\x0f"
    b"\n\x0bPHASE_RESET\x10\x01\x12\x0e\n\nPHASE_STEP\x10\x02\x12\x0f\n\x0bPHASE_CLOSE\x10\x03\x12\x0e\n\nPHASE_EX"
    b"IT\x10\x04\x12\x12\n\x0ePHASE_RECOVERY\x10\x05*\xd2\x01\n\x07Outcome\x12\x13\n\x0fOUTCOME_UNKNOWN\x10\x00\x12\x13\n"
    b"\x0fOUTCOME_SUCCESS\x10\x01\x12\x13\n\x0fOUTCOME_FAILURE\x10\x02\x12\x13\n\x0fOUTCOME_BLOCKED\x10\x03"
    b"\x12\x15\n\x11OUTCOME_ENV_ERROR\x10\x04\x12\x17\n\x13OUTCOME_AGENT_ERROR\x10\x05\x12\x17\n\x13OUTCOME_"
    b"JUDGE_ERROR\x10\x06\x12\x13\n\x0fOUTCOME_TIMEOUT\x10\x07\x12\x15\n\x11OUTCOME_CANCELLED\x10\x08b\x06p"
    b"roto3"
)

TrajectoryData = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["TrajectoryData"])
ActionData = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ActionData"])
BrowserGymAction = message_factory.GetMessageClass(
    DESCRIPTOR.message_types_by_name["BrowserGymAction"]
)
RecordedAction = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RecordedAction"])
RawEvent = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RawEvent"])
MouseEvent = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["MouseEvent"])
RecordedState = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RecordedState"])
WebState = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["WebState"])
Viewport = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["Viewport"])
DocumentBlob = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["DocumentBlob"])
Rect = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["Rect"])
BrowserGymObservation = message_factory.GetMessageClass(
    DESCRIPTOR.message_types_by_name["BrowserGymObservation"]
)
AgentState = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["AgentState"])
LLMInteraction = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["LLMInteraction"])
LLMMessage = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["LLMMessage"])
LLMContent = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["LLMContent"])
Value = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["Value"])
ListValue = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ListValue"])
MapValue = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["MapValue"])
RecordValue = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["RecordValue"])
ArrayValue = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ArrayValue"])
BlobRef = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["BlobRef"])
ExtraFields = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ExtraFields"])
EpisodeData = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["EpisodeData"])
EpisodeInfo = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["EpisodeInfo"])
StepData = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["StepData"])
DecisionData = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["DecisionData"])
ModelCallData = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ModelCallData"])
EpisodeEnd = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["EpisodeEnd"])
ErrorInfo = message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name["ErrorInfo"])
Place = enum_type_wrapper.EnumTypeWrapper(DESCRIPTOR.enum_types_by_name["Place"])
PLACE_UNKNOWN = 0
PLACE_ACTION_STRING = 1
PLACE_URL = 2
PLACE_LEGACY_GOAL = 3
PLACE_FOCUSED_ELEMENT_BID = 4
PLACE_LAST_ACTION = 5
PLACE_LAST_ACTION_ERROR = 6
PLACE_DOM = 7
PLACE_AXTREE = 8
PLACE_EXTRA_ELEMENT_PROPERTIES = 9
StepType = enum_type_wrapper.EnumTypeWrapper(DESCRIPTOR.enum_types_by_name["StepType"])
STEP_TYPE_UNKNOWN = 0
STEP_TYPE_FIRST = 1
STEP_TYPE_MID = 2
STEP_TYPE_LAST = 3
EndReason = enum_type_wrapper.EnumTypeWrapper(DESCRIPTOR.enum_types_by_name["EndReason"])
END_REASON_UNKNOWN = 0
END_REASON_TERMINATED = 1
END_REASON_TRUNCATED = 2
END_REASON_INTERRUPTED = 3
END_REASON_CLOSED = 4
END_REASON_ERRORED = 5
END_REASON_CANCELLED = 6
END_REASON_CRASHED = 7
Phase = enum_type_wrapper.EnumTypeWrapper(DESCRIPTOR.enum_types_by_name["Phase"])
PHASE_UNKNOWN = 0
PHASE_RESET = 1
PHASE_STEP = 2
PHASE_CLOSE = 3
PHASE_EXIT = 4
PHASE_RECOVERY = 5
Outcome = enum_type_wrapper.EnumTypeWrapper(DESCRIPTOR.enum_types_by_name["Outcome"])
OUTCOME_UNKNOWN = 0
OUTCOME_SUCCESS = 1
OUTCOME_FAILURE = 2
OUTCOME_BLOCKED = 3
OUTCOME_ENV_ERROR = 4
OUTCOME_AGENT_ERROR = 5
OUTCOME_JUDGE_ERROR = 6
OUTCOME_TIMEOUT = 7
OUTCOME_CANCELLED = 8
