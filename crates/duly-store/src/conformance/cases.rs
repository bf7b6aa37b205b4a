//! The list of cases: the only code that names them.
//!
//! [`conformance_cases!`](crate::conformance_cases) passes the list to another macro. So the table for
//! [`cases`] and the `#[test]` functions of [`conformance_tests!`](crate::conformance_tests) cannot differ.

use super::{
    Case, access, call, cancel, claim, dead, deployment, durable, fire, forecast, idle, import,
    intact, lease, limits, list, namespaces, occurrence, race, reschedule, schedule, settle, stats,
    stop, time,
};

/// Calls the macro `$with` (of this crate) with `$pass` in braces, followed by every topic with its cases.
#[macro_export]
macro_rules! conformance_cases {
    ($with:ident, $($pass:tt)*) => {
        $crate::$with! { { $($pass)* }
            schedule {
                p6_post_over_scheduled,
                p6_post_over_due,
                p6_post_over_retrying,
                p6_post_over_in_flight,
                p6_post_over_finished,
                p6_post_over_cancelled,
                p6_post_over_dead,
                p6_same_request_with_a_delay_is_the_same_later,
                p6_changed_timer_keeps_its_request_hash,
                p6_replace_counts_the_revision_and_is_another_incarnation,
                p4_t4_t26_an_id_used_again_fires_once_at_the_new_time,
                p6_new_timer_has_the_requested_fields,
                p6_operations_on_one_id_run_in_order,
                t13_refused_item_affects_no_other_item,
                t5_the_same_id_in_two_namespaces_is_two_timers,
            }
            import {
                p7_p11_imported_timer_is_unchanged,
                p4_p6_an_import_can_be_repeated_in_every_state,
                p6_import_replaces_no_other_timer,
                p3_p7_imported_dead_letter_is_separate_and_redrivable,
                p10_an_import_keeps_to_the_limits,
                p1_imported_timers_and_dead_letters_survive,
            }
            cancel {
                p4_cancel_before_claim_wins,
                p4_a_due_timer_can_be_cancelled,
                p4_claim_before_cancel_wins,
                p4_cancel_of_a_retry_returns_its_attempts,
                p4_cancel_after_a_lost_lease_is_maybe_delivered,
                p4_repeated_cancel_returns_the_same,
                p4_cancel_of_ended_timers_is_refused_by_state,
                p4_cancel_checks_the_revision_first,
                p4_cancel_seen_cancels_only_the_listed_timer,
                p4_p8_a_cancelled_retry_takes_no_late_verdict,
                p4_without_retention_a_cancelled_timer_is_unknown,
            }
            stop {
                p4_a_stopped_attempt_that_fails_ends_cancelled,
                p4_the_last_attempt_of_a_stopped_timer_is_no_dead_letter,
                p4_a_stop_is_too_late_for_an_attempt_that_succeeds,
                p4_a_stopped_timer_is_cancelled_when_its_lease_ends,
                p4_p8_an_extension_keeps_the_stop,
                p4_a_stop_can_be_repeated_and_checks_what_it_names,
                p4_a_stop_of_a_timer_out_of_flight_is_a_cancel,
                p1_p4_a_stop_survives_a_kill,
            }
            reschedule {
                p5_a_later_time_is_the_only_time,
                p5_t6_an_earlier_time_is_the_only_time,
                p5_a_due_timer_can_be_put_off,
                p5_a_delay_counts_from_now,
                p5_each_field_replaces_resets_or_stays,
                p5_only_pending_timers_outside_a_lease_can_change,
                p5_the_revision_is_checked_before_the_state,
                p5_a_new_destination_is_a_new_lane,
            }
            fire {
                p5_fire_makes_a_scheduled_timer_due_now,
                p5_p7_fire_makes_the_next_attempt_now,
                p5_fire_of_due_or_in_flight_changes_nothing,
                p5_fire_of_ended_timers_is_refused,
            }
            call {
                p10_a_call_of_too_many_items_does_nothing,
                p10_a_brief_answer_leaves_the_payload_out,
                p10_unknown_shard_is_refused,
            }
            claim {
                p2_t1_never_early_by_a_millisecond,
                p2_a_retry_is_never_early_either,
                p12_lateness_of_past_due_times_starts_at_creation,
                p2_first_attempts_come_in_due_order,
                p9_t23_retries_come_after_and_apart,
                p9_only_named_lanes_are_touched,
                p9_nothing_else_in_a_claim_reply_is_true,
                p10_a_claim_keeps_to_its_number_and_bytes,
                p3_a_firing_is_granted_once,
                p3_a_lane_named_twice_grants_each_firing_once,
                p4_a_paused_namespace_grants_nothing,
                p2_a_paused_namespace_resumes_at_its_time,
                p9_ready_names_lanes_with_something_claimable,
                p9_paused_namespaces_do_not_hide_other_lanes,
                p2_the_next_due_time_is_never_overslept,
                p10_dead_letters_at_their_limit_stop_the_lanes,
                p9_a_timer_without_destination_follows_its_namespace,
                p10_a_lease_of_a_length_not_allowed_is_refused,
            }
            settle {
                p3_each_verdict_leads_to_its_state,
                p8_the_same_verdict_again_is_recognised,
                p8_a_stale_token_changes_nothing,
                p8_a_token_of_an_earlier_timer_is_stale,
                p8_no_token_of_this_store_or_namespace,
                p3_retry_waits_follow_the_verdict,
                p3_the_last_attempt_leads_to_a_dead_letter,
                p3_tombstone_keeps_the_attempt_history,
                p3_release_counts_no_attempt,
                p3_a_snooze_uses_up_no_attempt,
                p3_a_snooze_ends_with_expire_after,
                p8_extend_lasts_from_now_to_twelve_hours_after_the_claim,
                p8_an_extension_does_not_ask_the_wall_clock,
                p10_an_extension_not_allowed_refuses_the_whole_call,
                p8_verdicts_of_one_call_are_taken_in_order,
            }
            race {
                p4_t3_a_cancel_that_races_a_claim_has_one_outcome,
                p5_t3_a_change_that_races_a_claim_has_one_outcome,
                p8_t3_two_verdicts_that_race_have_one_winner,
                p4_t3_a_stop_that_races_a_verdict_has_one_outcome,
            }
            lease {
                p3_a_lease_that_ends_makes_it_due_again,
                p8_a_lease_is_good_to_its_last_millisecond,
                p3_lost_leases_use_up_the_budget,
                p3_lease_ends_without_any_call,
                p3_release_owner_ends_that_nodes_leases_only,
                p3_release_owner_counts_against_the_budget,
                p8_a_nodes_lease_lives_as_long_as_the_node,
            }
            occurrence {
                p7_one_delivery_id_over_all_attempts,
                p7_the_delivery_id_is_the_frozen_hash,
                p7_content_change_after_an_attempt_is_a_new_occurrence,
                p7_other_changes_keep_the_occurrence,
                p7_a_change_before_any_attempt_keeps_the_occurrence,
                p7_an_id_used_again_has_another_delivery_id,
            }
            dead {
                p3_p11_a_dead_letter_keeps_everything,
                p3_p10_only_overdue_timers_are_dead_lettered,
                p3_p7_redrive_delivers_again_with_fresh_attempts,
                p3_purged_dead_letter_is_removed,
                p3_only_dead_letters_are_redriven_or_purged,
                p3_dead_letter_stays_beside_a_new_timer,
                p3_an_id_names_its_latest_dead_letter,
                p3_expired_timer_is_dead_lettered_without_attempt,
                p3_expiry_does_not_touch_a_running_attempt,
            }
            list {
                t22_lists_come_in_due_order_then_by_id,
                t22_lists_pick_by_state,
                t22_lists_pick_by_time_prefix_and_tag,
                t22_unchanged_timers_come_exactly_once_while_others_change,
                t22_every_dead_letter_of_an_id_is_listed,
                p10_a_page_has_1_to_1000_timers,
                p10_a_page_takes_no_more_memory_than_it_may,
                p10_a_timer_that_does_not_fit_is_not_read,
                p5_a_list_shows_the_present,
            }
            stats {
                t28_counts_equal_a_full_scan_after_a_mixed_run,
                t28_each_total_counts_its_own,
                t28_lanes_are_counted_apart,
                t28_health_sums_the_namespaces,
                t28_health_counts_the_namespaces_that_are_stopped,
                t28_an_empty_namespace_counts_nothing,
            }
            forecast {
                t28_forecast_counts_each_pending_timer_in_its_bucket,
                t28_a_forecast_equals_what_lists_find_after_a_mixed_run,
                t28_a_forecast_moves_on_with_the_clock,
                p10_a_forecast_past_its_limits_is_refused,
            }
            idle {
                p10_idle_implicit_namespaces_are_removed,
                p3_p6_a_namespace_that_holds_anything_is_not_idle,
                p1_a_schedule_at_the_moment_of_a_removal_is_not_lost,
            }
            namespaces {
                p6_put_makes_then_changes,
                p6_put_if_absent_keeps_an_existing_namespace,
                p6_secrets_stay_when_asked,
                p10_namespaces_are_listed_in_pages,
                p10_one_namespace_more_than_there_may_be_is_refused,
                p3_a_namespace_with_timers_is_not_deleted_unforced,
                p4_t4_a_namespace_made_again_is_empty,
                p10_calls_on_unknown_namespaces_are_refused,
                p4_a_lease_taken_before_a_pause_can_be_settled,
                p6_settings_apply_to_pending_timers,
                p2_something_claimable_wakes_the_waiting,
            }
            deployment {
                p3_members_hear_of_each_other,
                p3_only_members_without_progress_are_evicted,
                p3_evictions_are_told_for_a_minute_and_kept,
                p3_another_list_of_coordinators_is_refused,
                p3_lease_holders_are_listed,
                p8_released_member_cannot_claim,
                p9_an_announcement_reaches_every_listener,
                p10_a_cap_is_shared_out_and_never_exceeded,
                p10_grants_end_with_the_member,
            }
            access {
                p10_keys_change_in_one_order,
                p1_keys_are_there_after_a_kill,
                p1_the_audit_log_is_there_after_a_kill,
                p1_a_flood_displaces_no_audit_entries_of_others,
            }
            limits {
                p10_t7_payloads_up_to_the_limit_and_no_further,
                p10_no_more_pending_timers_than_allowed,
                p10_no_more_schedules_a_second_than_allowed,
                p10_no_due_time_further_than_allowed,
                p10_tombstones_are_bounded_oldest_first,
                p6_tombstones_last_for_the_retention,
                p1_p4_p6_a_forgotten_timer_leaves_nothing,
                p6_p10_settings_bound_what_is_kept_already,
                p6_a_longer_retention_restores_nothing,
                p6_a_raised_retention_counts_at_once,
                p6_t24_a_raised_retention_survives_a_step_back,
                p9_p10_origins_past_the_number_of_lanes_share_one,
                p10_a_refused_item_leaves_no_trace,
            }
            time {
                p12_the_past_is_due_at_once,
                p12_t2_the_farthest_times_are_kept_exactly,
                p12_t2_an_impossible_delay_is_refused,
                p3_t17_t25_after_long_silence_everything_fires_in_order,
                p2_t24_a_step_back_delays_and_never_fires_early,
                p2_t24_a_step_back_before_a_claim_takes_due_away,
                p2_t24_a_step_forward_makes_due_at_once,
                p8_t24_steps_do_not_move_leases,
                p2_t24_steps_do_not_move_retries,
                p2_t24_a_retry_is_never_before_the_due_time,
                p5_t24_fire_works_after_a_step,
            }
            intact {
                p11_t7_payloads_of_every_form_and_size,
                p11_every_field_stays_in_every_state,
                p11_headers_in_order_and_everything_that_travels,
                p11_t5_every_id_that_is_allowed_works,
                p11_changed_payload_is_delivered,
            }
            durable {
                p1_timers_in_every_state_are_there_after_a_kill,
                p1_p2_t1_timers_fire_at_their_time_after_a_kill,
                p1_p4_cancelled_stays_cancelled_after_a_kill,
                p1_p5_a_change_stays_after_a_kill,
                p1_p8_verdicts_stay_after_a_kill,
                p1_p8_consumer_lease_continues_after_a_kill,
                p1_p8_an_extension_stays_after_a_kill,
                p1_p3_a_nodes_leases_end_with_it_and_count,
                p1_p3_claims_of_nodes_use_up_the_budget_over_kills,
                p1_p7_occurrences_and_attempts_stay_after_a_kill,
                p1_p3_dead_letters_and_redrives_survive_a_restart,
                p1_timers_that_expired_during_downtime_end,
                p1_namespaces_are_there_after_a_kill,
                p1_lanes_are_the_same_after_a_kill,
            }
        }
    };
}

/// Creates one `#[test]` per case. `$make` is a function or closure that returns a fresh
/// [`Harness`](crate::conformance::Harness). If the harness cannot run a case, its name is printed to
/// standard error.
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_cases! { conformance_test_functions, $make }
    };
}

/// Creates the `#[test]` functions; called by [`conformance_tests!`](crate::conformance_tests).
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_test_functions {
    ({ $make:expr } $($topic:ident { $($name:ident,)* })*) => {
        $($(
            #[test]
            fn $name() {
                $crate::conformance::run_one(stringify!($name), $make);
            }
        )*)*
    };
}

/// Creates the table of cases; called by [`cases`].
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_table {
    ({} $($topic:ident { $($name:ident,)* })*) => {
        vec![$($(
            Case {
                name: stringify!($name),
                topic: stringify!($topic),
                run: |harness| Box::pin($topic::$name(harness)),
            },
        )*)*]
    };
}

/// Returns every case of the suite, topic by topic.
pub fn cases() -> Vec<Case> {
    crate::conformance_cases! { conformance_table, }
}
