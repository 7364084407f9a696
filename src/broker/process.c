/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The way of a request: faults, the hook, its processor by code. Loop thread. Counterpart:
 * NettyRemotingAbstract.processRequestCommand. */
#include "broker/broker.h"

/* The usual ones first. */
static const struct {
    int32_t code;
    void (*run)(const struct rq_request *request);
} processors[] = {
    {RQ_REQ_SEND_MESSAGE_V2, rq_process_send},
    {RQ_REQ_PULL_MESSAGE, rq_process_pull},
    {RQ_REQ_LITE_PULL_MESSAGE, rq_process_pull},
    {RQ_REQ_SEND_BATCH_MESSAGE, rq_process_send},
    {RQ_REQ_SEND_MESSAGE, rq_process_send},
    {RQ_REQ_SEND_REPLY_MESSAGE_V2, rq_process_send},
    {RQ_REQ_SEND_REPLY_MESSAGE, rq_process_send},
    {RQ_REQ_UPDATE_CONSUMER_OFFSET, rq_process_update_offset},
    {RQ_REQ_HEART_BEAT, rq_process_heartbeat},
    {RQ_REQ_QUERY_CONSUMER_OFFSET, rq_process_query_offset},
    {RQ_REQ_CONSUMER_SEND_MSG_BACK, rq_process_send_back},
    {RQ_REQ_QUERY_ASSIGNMENT, rq_process_query_assignment},
    {RQ_REQ_SET_MESSAGE_REQUEST_MODE, rq_process_set_request_mode},
    {RQ_REQ_GET_ALL_MESSAGE_REQUEST_MODE, rq_process_all_request_modes},
    {RQ_REQ_POP_MESSAGE, rq_process_pop},
    {RQ_REQ_ACK_MESSAGE, rq_process_ack},
    {RQ_REQ_BATCH_ACK_MESSAGE, rq_process_batch_ack},
    {RQ_REQ_CHANGE_MESSAGE_INVISIBLETIME, rq_process_change_invisible},
    {RQ_REQ_NOTIFICATION, rq_process_notification},
    {RQ_REQ_PEEK_MESSAGE, rq_process_peek},
    {RQ_REQ_POLLING_INFO, rq_process_polling_info},
    {RQ_REQ_END_TRANSACTION, rq_process_end_transaction},
    {RQ_REQ_RECALL_MESSAGE, rq_process_recall},
    {RQ_REQ_GET_CONSUMER_LIST_BY_GROUP, rq_process_consumer_list},
    {RQ_REQ_LOCK_BATCH_MQ, rq_process_lock},
    {RQ_REQ_UNLOCK_BATCH_MQ, rq_process_unlock},
    {RQ_REQ_UNREGISTER_CLIENT, rq_process_unregister_client},
    {RQ_REQ_CHECK_CLIENT_CONFIG, rq_process_check_client},
    {RQ_REQ_GET_MAX_OFFSET, rq_process_queue_offset},
    {RQ_REQ_GET_MIN_OFFSET, rq_process_queue_offset},
    {RQ_REQ_GET_EARLIEST_MSG_STORETIME, rq_process_queue_offset},
    {RQ_REQ_SEARCH_OFFSET_BY_TIMESTAMP, rq_process_search_offset},
    {RQ_REQ_QUERY_MESSAGE, rq_process_query_message},
    {RQ_REQ_VIEW_MESSAGE_BY_ID, rq_process_view_message},
    {RQ_REQ_UPDATE_AND_CREATE_TOPIC, rq_process_create_topic},
    {RQ_REQ_UPDATE_AND_CREATE_TOPIC_LIST, rq_process_create_topics},
    {RQ_REQ_UPDATE_AND_CREATE_STATIC_TOPIC, rq_process_create_static_topic},
    {RQ_REQ_DELETE_TOPIC_IN_BROKER, rq_process_delete_topic},
    {RQ_REQ_GET_ALL_TOPIC_CONFIG, rq_process_all_topics},
    {RQ_REQ_GET_TOPIC_CONFIG, rq_process_get_topic},
    {RQ_REQ_GET_SYSTEM_TOPIC_LIST_FROM_BROKER, rq_process_system_topics},
    {RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, rq_process_put_group},
    {RQ_REQ_UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, rq_process_put_groups},
    {RQ_REQ_GET_ALL_SUBSCRIPTIONGROUP_CONFIG, rq_process_all_groups},
    {RQ_REQ_GET_SUBSCRIPTIONGROUP_CONFIG, rq_process_get_group},
    {RQ_REQ_DELETE_SUBSCRIPTIONGROUP, rq_process_delete_group},
    {RQ_REQ_GET_TOPIC_STATS_INFO, rq_process_topic_stats},
    {RQ_REQ_GET_CONSUME_STATS, rq_process_consume_stats},
    {RQ_REQ_GET_CONSUMER_CONNECTION_LIST, rq_process_consumer_connections},
    {RQ_REQ_GET_PRODUCER_CONNECTION_LIST, rq_process_producer_connections},
    {RQ_REQ_GET_ALL_PRODUCER_INFO, rq_process_all_producers},
    {RQ_REQ_QUERY_TOPIC_CONSUME_BY_WHO, rq_process_consumed_by},
    {RQ_REQ_QUERY_TOPICS_BY_CONSUMER, rq_process_topics_of_group},
    {RQ_REQ_GET_BROKER_RUNTIME_INFO, rq_process_runtime_info},
    {RQ_REQ_GET_BROKER_CONFIG, rq_process_get_config},
    {RQ_REQ_UPDATE_BROKER_CONFIG, rq_process_update_config},
    {RQ_REQ_GET_ALL_CONSUMER_OFFSET, rq_process_all_offsets},
    {RQ_REQ_GET_ALL_DELAY_OFFSET, rq_process_all_delay_offsets},
    {RQ_REQ_INVOKE_BROKER_TO_RESET_OFFSET, rq_process_reset_offset},
    {RQ_REQ_CLONE_GROUP_OFFSET, rq_process_clone_offset},
    {RQ_REQ_GET_CONSUMER_RUNNING_INFO, rq_process_running_info},
    {RQ_REQ_CONSUME_MESSAGE_DIRECTLY, rq_process_consume_directly},
    {RQ_REQ_QUERY_CONSUME_TIME_SPAN, rq_process_time_span},
    {RQ_REQ_QUERY_CORRECTION_OFFSET, rq_process_correction_offset},
    {RQ_REQ_VIEW_BROKER_STATS_DATA, rq_process_stats},
    {RQ_REQ_GET_BROKER_CONSUME_STATS, rq_process_broker_consume_stats},
    {RQ_REQ_QUERY_CONSUME_QUEUE, rq_process_query_consume_queue},
    {RQ_REQ_QUERY_SUBSCRIPTION_BY_CONSUMER, rq_process_subscription_of},
    {RQ_REQ_UPDATE_AND_GET_GROUP_FORBIDDEN, rq_process_group_forbidden},
    {RQ_REQ_GET_BROKER_HA_STATUS, rq_process_ha_status},
    {RQ_REQ_RESET_MASTER_FLUSH_OFFSET, rq_process_nothing_to_change},
    {RQ_REQ_NOTIFY_BROKER_ROLE_CHANGED, rq_process_nothing_to_change},
    {RQ_REQ_NOTIFY_MIN_BROKER_ID_CHANGE, rq_process_min_broker_id},
    {RQ_REQ_EXCHANGE_BROKER_HA_INFO, rq_process_ha_info},
    {RQ_REQ_GET_BROKER_EPOCH_CACHE, rq_process_epochs},
    {RQ_REQ_RESUME_CHECK_HALF_MESSAGE, rq_process_resume_check},
    {RQ_REQ_GET_TIMER_CHECK_POINT, rq_process_timer_checkpoint},
    {RQ_REQ_GET_TIMER_METRICS, rq_process_timer_metrics},
    {RQ_REQ_SET_COMMITLOG_READ_MODE, rq_process_read_ahead},
    {RQ_REQ_CHECK_ROCKSDB_CQ_WRITE_PROGRESS, rq_process_rocksdb_progress},
    {RQ_REQ_EXPORT_ROCKSDB_CONFIG_TO_JSON, rq_process_rocksdb_export},
    {RQ_REQ_POP_ROLLBACK, rq_process_pop_rollback},
    {RQ_REQ_AUTH_CREATE_USER, rq_process_users_and_rights},
    {RQ_REQ_AUTH_UPDATE_USER, rq_process_users_and_rights},
    {RQ_REQ_AUTH_DELETE_USER, rq_process_users_and_rights},
    {RQ_REQ_AUTH_GET_USER, rq_process_users_and_rights},
    {RQ_REQ_AUTH_LIST_USER, rq_process_users_and_rights},
    {RQ_REQ_AUTH_CREATE_ACL, rq_process_users_and_rights},
    {RQ_REQ_AUTH_UPDATE_ACL, rq_process_users_and_rights},
    {RQ_REQ_AUTH_DELETE_ACL, rq_process_users_and_rights},
    {RQ_REQ_AUTH_GET_ACL, rq_process_users_and_rights},
    {RQ_REQ_AUTH_LIST_ACL, rq_process_users_and_rights},
    {RQ_REQ_UPDATE_COLD_DATA_FLOW_CTR_CONFIG, rq_process_put_cold_data},
    {RQ_REQ_REMOVE_COLD_DATA_FLOW_CTR_CONFIG, rq_process_remove_cold_data},
    {RQ_REQ_GET_COLD_DATA_FLOW_CTR_INFO, rq_process_get_cold_data},
    {RQ_REQ_INVOKE_BROKER_TO_GET_CONSUMER_STATUS, rq_process_consumer_status},
    {RQ_REQ_CLEAN_EXPIRED_CONSUMEQUEUE, rq_process_clean},
    {RQ_REQ_CLEAN_UNUSED_TOPIC, rq_process_clean},
    {RQ_REQ_DELETE_EXPIRED_COMMITLOG, rq_process_clean},
};

static void run_processor(const struct rq_request *request)
{
    const struct rmq_broker *broker = request->broker;
    int32_t code = request->in->header->code;
    if (broker->hook && !broker->hook(request, broker->hook_user)) {
        return;
    }
    for (size_t i = 0; i < sizeof processors / sizeof processors[0]; i++) {
        if (processors[i].code == code) {
            processors[i].run(request);
            return;
        }
    }
    rq_answer_unsupported(request->conn, &request->to, code);
}

void rq_broker_process(struct rmq_broker *broker, struct rq_session *session, struct rq_in *in)
{
    struct rq_request request = {.broker = broker,
                                 .session = session,
                                 .conn = session->conn,
                                 .in = in,
                                 .to = rq_reply_to(in->header)};
    if (rq_fault_apply(&broker->fault, &request, run_processor)) {
        return;
    }
    request.to = rq_reply_to(in->header); /* a dropped answer makes a request one-way */
    run_processor(&request);
}
