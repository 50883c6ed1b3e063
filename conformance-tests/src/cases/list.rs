//! The one list of cases. The array of [`CASES`](crate::CASES) and the tests of
//! [`conformance_tests!`](crate::conformance_tests) are both made from it, so that they can not drift apart.

/// Hands the list to a macro: for each family its cases, each with the hooks that it needs, the rules that it checks,
/// and why a plausible backend gets it wrong.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ($($callback:tt)*) => {
        $($callback)*! {
            takeover {
                tko01_first_claim_is_generation_1 [] ["C1" "C5" "G1" "A2"]
                    "generations that start at 0, or a first claim that stands in no log";
                tko02_valid_lease_is_held [clock] ["C1" "C3" "T3"]
                    "an expiry that is compared in seconds lets the last moment be stolen";
                tko03_granted_at_expiry [clock] ["C1" "T3" "C5"]
                    "`<` in one place and `<=` in the other: nobody, or two, may write at equality";
                tko04_observation_must_be_current [] ["C1" "J1"]
                    "a claim that looks at the expiry alone lets one who read an old state win";
                tko05_one_of_32_racers_takes_an_expired_lease [] ["C2" "C5" "G1"]
                    "check and write in two steps: several racers pass the check";
                tko06_one_of_32_racers_claims_first [] ["C2" "C6"]
                    "there is no row to lock yet, and two inserts, or an insert and an upsert, both win";
                tko07_two_handles_race_for_every_generation [] ["C2" "G1" "C5"]
                    "a lock that lives in the handle does not hold the other handle back";
                tko08_own_name_does_not_renew_by_claiming [] ["C3" "C1"]
                    "a process that restarts under the same name takes over from its own running twin";
                tko09_same_acquisition_returns_the_same_lease [] ["C4" "J2"]
                    "a retry after a lost reply is refused, or begins a second tenure";
                tko10_spent_acquisition_is_refused_for_ever [] ["C4" "J1"]
                    "acquisitions are forgotten with the tenure, and a delayed claim takes over again";
                tko11_succession_names_the_tenure_before [clock] ["C5" "G4"]
                    "the takeover is recorded beside the log, or with what the new holder believes";
                tko12_hundred_tenures_count_up [] ["G1" "G2" "C5" "A2"]
                    "a generation is derived from something that can repeat";
                tko13_expired_acquisition_is_not_granted_again [] ["C4" "T3"]
                    "the retry of a claim returns a lease that has meanwhile expired";
                tko14_lease_model_in_sequence [clock] ["T3" "C1" "C3" "G1" "R1" "R3" "A1" "J1"]
                    "each step is easy; a late call of an earlier tenure of the same name is where it breaks";
                tko15_renewal_races_a_takeover_at_expiry [clock] ["R1" "C2" "T4"]
                    "both are judged by a time of their own, and the one revives what the other has taken";
                tko16_generations_end_and_do_not_wrap [tamper] ["G2" "J1"]
                    "the highest generation plus one is the lowest";
            }
            stale_write {
                stw01_generation_before_is_refused [] ["A1" "J1" "G3"]
                    "the check looks at the holder's name, or at the time alone";
                stw02_generation_ahead_is_refused [] ["G3" "J1"]
                    "`>=` instead of `=`: a forged or rewound token is the highest";
                stw03_other_holder_is_refused [] ["A1" "J1"]
                    "the token alone is compared, and who read it from a log may write";
                stw04_other_acquisition_is_refused [] ["A1" "J1"]
                    "holder and generation are right in another history of the store too";
                stw05_expired_though_nobody_followed [] ["T3" "R1" "A1"]
                    "the generation has not moved, so a check of it alone lets the late one write";
                stw06_paused_holder_wakes_on_its_own_handle [] ["A1" "C6" "E4"]
                    "the lease is cached in the handle that claimed it";
                stw07_released_lease_writes_nothing [] ["R3" "J1"]
                    "a release that empties the holder but is not looked at by an append";
                stw08_earlier_tenure_of_the_same_name [] ["J1" "G2" "C4"]
                    "the status came back to the same value: holder A, valid, but another tenure";
                stw09_stale_batch_stores_nothing [] ["A1" "A2" "A3"]
                    "each event is judged by itself, or numbers are drawn before the judgement";
                stw10_expiry_passes_while_waiting_for_the_lock [clock hold_lock] ["T4" "A1"]
                    "the clock is read before the lock: by the statement, or at the start of the transaction";
                stw11_renewal_and_claim_are_judged_after_the_wait [clock hold_lock] ["T4" "R1" "C1"]
                    "the append is judged after the wait, the other calls are not";
                stw12_lease_of_another_ledger_is_invalid [] ["J4"]
                    "partition and numbers are alike in two ledgers, and one may write to the other";
                stw13_nothing_is_written_before_the_first_claim [] ["J1" "A1"]
                    "an upsert that creates the partition on the first append";
                stw14_appends_race_a_takeover [] ["C6" "A1" "C3"]
                    "an append that was judged before the takeover is written after it";
                stw15_delayed_request_arrives_after_a_takeover [line] ["A1" "C6" "E1"]
                    "what was sent in time is taken for valid whenever it comes";
                stw16_request_that_is_doubled_across_a_takeover [] ["A4" "J3" "C6"]
                    "the second copy is written too, or the successor's retry is taken for a new append";
                stw17_storm_of_takeovers_and_writers [] ["C6" "A1" "A2" "G1"]
                    "each call alone is right, and two of them together are not one step";
            }
            renewal {
                rnw01_extends_from_the_judged_time [clock] ["R1" "R2"]
                    "the TTL is added to the old expiry, or counted from the caller's time";
                rnw02_never_shortens [] ["R1"]
                    "a delayed or shorter renewal takes time away that was promised";
                rnw03_expired_is_not_revived [] ["R1" "T3" "T2"]
                    "nobody has followed, so the late renewal looks harmless";
                rnw04_changes_expiry_and_revision_alone [] ["R1" "J2" "G4"]
                    "the row is written as a whole, from what the caller presented";
                rnw05_tells_head_and_chain [] ["R2"]
                    "the head is that of the last lease change, not that of the last append";
                rnw06_ttl_of_one_call_does_not_stay [clock] ["R1"]
                    "the TTL of a call overwrites that of the lease";
                rnw07_renewals_race_a_release [] ["R1" "R3" "J2"]
                    "a renewal in flight revives the lease that was just released";
            }
            release {
                rel01_frees_at_once_and_keeps_the_generation [] ["R3" "G1" "G2"]
                    "the row is deleted, and with it the generation";
                rel02_twice_is_answered_as_ended [] ["R3"]
                    "a retry after a lost reply is an error, and looks like a lost lease";
                rel03_foreign_lease_releases_nothing [] ["R3" "J1"]
                    "the release is by the partition's name, whoever asks";
                rel04_after_expiry_is_answered_as_ended [] ["R3" "T2"]
                    "a late release writes a `$released` that never was, or forgets to record the expiry";
                rel05_late_release_leaves_the_successor_alone [] ["R3" "C6"]
                    "the release looks at the partition and ends the tenure of who came after";
                rel06_appends_race_a_release [] ["R3" "A1" "A2"]
                    "an append in flight lands behind the release";
                rel07_operator_ends_a_valid_tenure [] ["C3" "G4" "R3"]
                    "the operator's step edits the row, and the log does not know";
                rel08_operator_ends_only_what_was_observed [] ["C3" "C1" "E1"]
                    "an operator who looks too long ends the tenure of who came after";
                rel09_release_that_overtakes_its_claim [] ["R3" "J1" "C4"]
                    "the release of a tenure that is not yet is kept, or counts for the tenure that comes";
            }
            clock {
                clk01_boundary_table [clock] ["T3"]
                    "one of four places compares the other way round";
                clk02_step_back_gives_no_time [clock] ["T2" "J2"]
                    "the clock alone decides: after a step back a lease lives longer";
                clk03_step_forward_fences_the_holder [clock] ["T2" "C6" "G3"]
                    "after the step back the first lease is unexpired by the clock again";
                clk04_recorded_expiry_stays_true [clock] ["T2" "U2"]
                    "a refusal is told and not stored, and the clock takes it back";
                clk05_times_never_fall_along_the_log [clock] ["T2"]
                    "each row has the time of the machine that wrote it";
                clk06_microseconds_are_kept [clock] ["T1" "T5"]
                    "times are rounded to what the store or a floating-point number holds";
                clk07_looking_records_nothing [clock] ["T2" "D1" "U2"]
                    "an observer, or a fate, ends a tenure by looking at it";
                clk08_operator_frees_what_a_jump_has_locked [clock] ["T2" "C3"]
                    "after a clock that ran ahead nobody can claim for as long as it ran";
            }
            judgement {
                jud01_append_names_the_first_that_fails [] ["J1" "A4" "A5"]
                    "a caller who is told `Expired` instead of `StaleGeneration` claims again and fights";
                jud02_renewal_names_the_first_that_fails [] ["J1" "R1"]
                    "renewal has a shorter check of its own";
                jud03_release_names_the_first_that_fails [] ["J1" "R3"]
                    "a release by who never held it is taken for a retry";
                jud04_claim_names_the_first_that_fails [] ["J1" "C1" "C4"]
                    "a retry is told `Held` by its own lease";
                jud05_append_id_used_by_a_fenced_caller [] ["J3" "A4"]
                    "a replay is answered to who may no longer write, or the fenced one is not told that it landed";
                jud06_refusal_tells_both_sides [] ["J1"]
                    "the refusal says no, and neither by what nor against what";
                jud07_revisions_order_what_was_granted [] ["J2"]
                    "renewals leave no trace, and two histories can not be told apart";
            }
            append {
                app01_positions_have_no_gap [] ["A2" "A4" "A5"]
                    "a sequence gives the number before the judgement, and a refusal burns it";
                app02_batch_is_one_entry_in_its_order [] ["A3" "A7"]
                    "the events of an append are stored one by one, each as an entry";
                app03_expected_position_is_the_head [] ["A5" "A3"]
                    "the expectation is compared with the count, or with the head of the lease row";
                app04_tasks_without_expectation_all_land [] ["A2" "A1" "A5"]
                    "unlocked read of the head, then a conflict that is swallowed";
                app05_one_of_20_with_the_same_expectation [] ["A5" "A1"]
                    "the expectation is checked before the lock";
                app06_counter_by_compare_and_retry [] ["A5" "A2"]
                    "a lost update among eight writers";
                app07_answer_is_what_is_stored [] ["A7" "U2"]
                    "the answer has nanoseconds, the table has microseconds";
                app08_append_does_not_extend_the_lease [clock] ["R1" "A1"]
                    "every sign of life renews";
                app09_ten_thousand_events_in_one [] ["A6" "A3"]
                    "the limit of bound parameters of one statement";
            }
            idempotency {
                idm01_same_content_is_answered_again [] ["A4" "A5"]
                    "a retry after a lost reply fails on its own first success";
                idm02_other_content_is_refused [] ["A4" "I1"]
                    "the id alone is compared, and the second content is lost";
                idm03_known_under_every_later_tenure [] ["A4"]
                    "ids are kept with the tenure";
                idm04_known_after_a_restart [restart] ["A4" "S2"]
                    "ids are kept in a cache";
                idm05_known_after_many_others [] ["A4"]
                    "ids are kept in a window";
                idm06_ids_belong_to_their_partition [] ["A4"]
                    "one unique index over all partitions";
                idm07_refused_id_is_still_free [] ["A4" "A2"]
                    "the id is entered before the judgement";
                idm08_eight_tasks_with_one_id [] ["A4" "A1"]
                    "the look for the id and the write are two steps";
                idm09_claims_use_ids_of_the_same_scope [] ["A4" "C4"]
                    "claims and appends are looked up in two places, and one id names two entries";
                idm10_acquisitions_belong_to_their_partition [] ["C4" "A4"]
                    "one unique index over the claims of all partitions";
            }
            evidence {
                evd01_refusal_leaves_its_record [] ["E1" "E2"]
                    "the record is rolled back together with the refused write";
                evd02_repeats_are_counted_in_one_record [] ["E3" "E2"]
                    "a row for each refusal: a zombie in a loop fills the disk";
                evd03_each_part_of_the_key_tells_records_apart [] ["E3"]
                    "a record that mixes two zombies names neither";
                evd04_bound_of_256_keys_then_a_count [] ["E3"]
                    "names are free, so keys are not bounded by being counted";
                evd05_next_generation_has_a_budget_of_its_own [] ["E3"]
                    "a forger of years ago leaves no room for today's";
                evd06_never_claimed_ones_share_one_budget [] ["E3" "J1"]
                    "who makes up names of partitions fills the disk";
                evd07_mere_answers_leave_no_record [] ["E1" "J4"]
                    "every lost race is kept as if it were a stale writer";
                evd08_records_survive_a_restart [restart] ["E2" "E3"]
                    "records are kept in memory, and written when there is time";
                evd09_zombie_is_refused_without_the_lock [hold_lock] ["E4"]
                    "every refusal queues for the lock that the holder needs";
                evd10_zombies_in_a_loop_are_counted_exactly [] ["E3" "E4"]
                    "counts that are brought together lose some, or the holder waits behind them";
                evd11_concurrent_refusals_lose_no_count [] ["E3"]
                    "read, add one, write back";
                evd12_pages_give_each_record_once [] ["E3"]
                    "paging by offset, or by a time that several share";
                evd13_remark_is_kept_with_the_refusal_alone [] ["E1" "E3" "A4"]
                    "a column that only the last refusal of a key has, or that a granted append leaves behind";
            }
            fate {
                fat01_recorded_is_told_to_anyone [] ["U2" "A7"]
                    "only the holder may ask, and it is the one that was fenced";
                fat02_undecided_while_the_tenure_lasts [] ["U2"]
                    "not there is taken for never";
                fat03_never_when_the_tenure_has_ended [] ["U2"]
                    "nobody ever gets a final no";
                fat04_expiry_that_has_merely_passed_is_not_never [] ["U2" "T2"]
                    "an append judged before the expiry may still be committing";
                fat05_pending_append_is_undecided [clock hold_lock] ["U2" "D1"]
                    "fate looks at the clock, or waits for the lock";
                fat06_never_is_final_among_writers [] ["U2" "C6"]
                    "partition and id are read in two snapshots";
                fat07_claim_is_settled_by_its_acquisition [] ["U2" "C4"]
                    "claims stand in another table";
            }
            reading {
                red01_prefix_while_five_write [] ["D2" "A3" "A2"]
                    "numbers are given before commit, and a gap fills later";
                red02_pages_join_without_seam [] ["D2"]
                    "a page ends inside an append, and the next one begins after it";
                red03_backward_is_forward_reversed [] ["D2"]
                    "the order within an append is not reversed";
                red04_ahead_of_the_log_is_an_error [] ["D4"]
                    "an empty page for a position that was lost: the reader waits for ever";
                red05_own_writes_on_every_handle [] ["D2" "S2"]
                    "a read is served by a snapshot that was opened before";
                red06_ledgers_own_events_are_read [] ["G4" "D2"]
                    "own events are hidden, and the positions have gaps";
                red07_follower_by_polling_gets_each_once [] ["D2" "D3"]
                    "delivery hangs on a wake-up";
                red08_observing_shows_one_moment [] ["D1" "J2"]
                    "lease and head are read by two statements";
                red09_reading_goes_on_while_a_lock_is_held [hold_lock] ["D1" "U2"]
                    "a shared lock for a consistent read, which waits for the writer";
                red10_page_is_bounded_by_bytes [] ["D5" "D2"]
                    "a count alone lets a page of large events fill the memory, and a bound alone stops before one";
                red11_stream_reads_on_while_it_is_consumed [] ["D6" "D2"]
                    "a cursor keeps one snapshot open for as long as its consumer takes";
                red12_read_that_nobody_polls_holds_up_nobody [] ["D6" "U3"]
                    "a stream that reads ahead keeps a connection or a lock, and its consumer's own append waits for it";
                red13_rare_kind_is_found_behind_many_others [] ["D7" "D4"]
                    "the kind is compared after the limit: an empty page is taken for the end";
            }
            payload {
                pay01_json_text_is_kept_byte_for_byte [] ["A6"]
                    "a JSON column sorts keys, drops duplicates and rounds numbers";
                pay02_one_megabyte [] ["A6"]
                    "the limit of a page, a packet or a notification";
                pay03_append_of_exactly_four_mebibytes [] ["A6"]
                    "the limit of the store is a little below that of the core";
                pay04_partition_names_are_bytes [] ["A6" "D2"]
                    "a collation, a pattern or a statement made of text";
                pay05_holder_names_are_bytes [] ["A6" "J1"]
                    "`Order` and `order` are one holder by collation";
                pay06_kinds_and_notes_are_bytes [] ["A6" "C3"]
                    "text is normalised on its way in";
                pay07_stored_content_hashes_to_what_was_sent [] ["I1" "A6"]
                    "what is hashed is not what is stored";
            }
            limits {
                lim01_invalid_input_reaches_no_store [] ["J4" "A3" "A6" "T5"]
                    "each store has limits of its own";
                lim02_largest_numbers_are_compared_not_wrapped [] ["G3" "A5"]
                    "64 bits that go through a float, or through an addition";
                lim03_largest_ids_and_times_are_kept [] ["A4" "C4" "T5"]
                    "ids are taken apart into signed numbers";
            }
            partitions {
                par01_writers_of_64_partitions_do_not_meet [] ["A2" "A5"]
                    "one conflict domain for all partitions";
                par02_first_claims_of_200_at_once [] ["C2" "A2"]
                    "new partitions are created under a lock that is not enough, or too much";
                par03_listing_gives_each_name_once [] ["D2"]
                    "paging by offset skips what others create";
                par04_ledger_says_what_it_is [] ["S4"]
                    "each handle mints an identity of its own";
            }
            restart {
                rst01_lease_survives_a_restart [restart] ["S2" "C4" "R1"]
                    "the lease is in memory, and after a restart everybody may claim";
                rst02_generation_survives_release_and_restart [restart] ["G2" "S2"]
                    "the newest generation is read from the leases that are held";
                rst03_log_and_chain_survive_a_restart [restart] ["S2" "I2"]
                    "the chain goes on from a value in memory";
                rst04_recorded_time_survives_a_restart [restart clock] ["T2" "S2"]
                    "the highest time seen is in memory";
                rst05_spent_acquisitions_survive_a_restart [restart] ["C4" "S2"]
                    "acquisitions are kept in a cache";
                rst06_handles_come_and_go [] ["S2" "U3"]
                    "a handle that closes takes something with it";
            }
            crash {
                crs01_acknowledged_appends_survive_a_crash [crash] ["S2" "A3" "I2"]
                    "the answer is given before the flush";
                crs02_takeover_is_whole_or_absent_after_a_crash [crash] ["S2" "G4" "C5" "G2"]
                    "lease and log are two writes, and a crash comes between them";
                crs03_failed_write_is_whole_or_absent [fail_write] ["A3" "U1" "G4"]
                    "an error in the middle leaves what was written before it";
                crs04_refusal_whose_record_fails_says_so [fail_write] ["E2" "U1"]
                    "the failed record is swallowed, or lets the append through";
            }
            unknown {
                unk01_lost_answer_has_landed_once [line] ["U1" "U2" "A4"]
                    "a lost answer is reported as a failure, and the retry writes a second time";
                unk02_lost_request_is_never_once_its_tenure_has_ended [line] ["U1" "U2" "J3"]
                    "nobody can prove that something is not there, or it is told too early";
                unk03_no_never_while_a_commit_is_held [clock hold_commit] ["U2" "D1"]
                    "what is not visible is taken for what never will be";
                unk04_held_commit_stands_before_the_takeover [hold_commit] ["C6" "U2" "A1"]
                    "the takeover does not wait for what was judged before it";
                unk05_lost_claim_is_asked_for_again [line] ["U1" "C4" "U2"]
                    "the claimant is told `Held` by the lease that it was granted";
                unk06_lost_renewal_is_asked_for_again [line] ["U1" "R1"]
                    "a renewal that expects the expiry that it saw fails on its own success";
                unk07_lost_release_is_answered_as_ended [line] ["U1" "R3"]
                    "the second release is an error, or a second `$released`";
                unk08_broken_line_is_never_a_refusal [line] ["U1" "E1"]
                    "whatever goes wrong is mapped to a conflict";
                unk09_refused_stays_absent [restart] ["U1" "A2" "U2"]
                    "a refusal that was only a time-out, and lands later";
                unk10_other_process_settles_after_a_crash [crash] ["U2" "U1" "S2" "A3"]
                    "the outcome is known to the process alone that is gone";
            }
            cancel {
                can01_dropped_append_is_whole_or_absent [] ["U3" "A3" "U2"]
                    "a transaction is left open, or half of the events are written";
                can02_dropped_claim_is_settled_by_a_retry [] ["U3" "C4"]
                    "the dropped claim holds, and the retry is told `Held`";
                can03_dropped_renewal_and_release [] ["U3" "R1" "R3"]
                    "the connection goes back to the pool in the middle of a transaction";
                can04_many_dropped_at_once_leave_a_usable_handle [] ["U3"]
                    "each dropped future costs a connection, until there is none";
                can05_dropped_refusal_keeps_the_count_true [] ["U3" "E3"]
                    "the record is counted twice, or its transaction stays open";
            }
            keeper {
                kep01_renews_and_appends_in_one_tenure [] ["K2" "R2"]
                    "a renewal tells a head that is behind an append which was acknowledged before it was sent";
                kep02_takeover_ends_the_writer_at_the_first_refusal [] ["K3" "J1"]
                    "the writer believes its own clock, and the store lets it";
                kep03_release_comes_after_what_was_in_flight [] ["K4" "R3"]
                    "the store is told before the work has stopped";
                kep04_lost_answers_leave_each_append_once [] ["K8" "K2" "A4"]
                    "a retry after a lost answer is written a second time, or refused";
                kep05_fate_settles_an_append_after_a_takeover [] ["K8" "U2"]
                    "the fate of an earlier generation is not told, or told too early";
                kep06_waits_for_the_expiry [] ["K9" "T3"]
                    "a waiting claim repeats the state and the time at which it began";
                kep07_release_of_a_lost_writer_leaves_the_successor_alone [] ["K4" "R3"]
                    "a stale release ends the tenure that followed";
                kep08_pool_loses_one_and_keeps_the_others [] ["K10"]
                    "leases of one process are one row, one lock or one session";
            }
            integrity {
                int01_chain_is_as_it_is_written_down [] ["I1"]
                    "a layout of one's own, which nobody else can recompute";
                int02_clean_log_verifies [] ["I2"]
                    "what is read is not what was hashed";
                int03_each_edit_is_named_at_its_position [] ["I2"]
                    "reads leave out what would show the edit";
                int04_mark_finds_a_store_that_was_rewound [] ["I2"]
                    "a store that was rewound is consistent in itself";
                int05_edit_of_the_storage_is_named_at_its_position [tamper] ["I2"]
                    "a cache hides the edit, or the whole log is refused";
                int06_lease_that_contradicts_the_log_is_diverged [tamper] ["G4"]
                    "the row is believed, and the log goes on under an edited owner";
                int07_lease_rewound_behind_its_release_is_diverged [tamper] ["G4" "R3"]
                    "generation, holder and acquisition still agree, so a released tenure writes again";
            }
            rollback {
                rbk01_advance_goes_on_above_every_generation [] ["I4" "G1" "C5" "J1" "J2" "R3"]
                    "the row is set by hand, and the log, or an old lease, does not know";
                rbk02_advance_is_safe_to_retry [] ["I4" "C4" "J1"]
                    "a lost reply makes an operator take a second step, over who has claimed meanwhile";
                rbk03_advance_creates_what_this_copy_never_had [] ["I4" "G1"]
                    "a partition that was first claimed after the copy begins again at 1";
                rbk04_no_generation_above_the_ceiling [] ["I4" "G1"]
                    "the number wraps, or the refused step leaves a partition behind";
                rbk05_advance_ends_what_has_diverged [tamper] ["I4" "G4" "I2"]
                    "the log goes on from what the edited row says, or the step is itself refused";
                rbk06_handover_tells_of_the_advance [] ["I4" "H1" "H3" "C5"]
                    "the step stands between, and the real predecessor is forgotten with its rejections";
            }
            witness {
                wit01_store_behind_its_mark_is_not_claimed [snapshot] ["I3"]
                    "a restored copy looks like a store to which less was written, and generations are granted again";
                wit02_other_history_is_told_apart [snapshot] ["I3" "I2"]
                    "positions are compared, and the copy has gone on past the mark";
                wit03_holder_notices_at_its_next_answer [snapshot] ["I3" "R2"]
                    "the answer fits the question, and nobody asks whether it fits what was answered before";
                wit04_advance_lets_every_witness_go_on [snapshot] ["I4" "I5" "I3" "G1"]
                    "each process has a mark of its own, to be edited by hand on each machine";
                wit05_marks_in_a_ledger_never_go_back [] ["I5"]
                    "the last who writes wins, and a slow one takes the mark back";
                wit06_witness_that_fails_stops_its_holder [] ["I5"]
                    "no mark can be read, so there is none, so there is nothing to compare";
                wit07_answers_are_marked_before_they_are_given [] ["I5" "R2"]
                    "marks are kept in the background, and the crash comes before them";
                wit08_keeper_stops_over_a_store_that_went_back [snapshot] ["I3" "K3"]
                    "the keeper takes it for one more failure, and renews until its time is over";
            }
            requests {
                req01_is_recorded_before_it_is_sent [] ["Q1" "Q2"]
                    "it is sent, and then recorded: a crash between the two forgets it";
                req02_second_request_sends_nothing [] ["Q1"]
                    "a restart or a successor sends it a second time";
                req03_same_key_for_another_request_is_refused [] ["Q1"]
                    "a key that is used twice hides one of two payments";
                req04_keys_belong_to_their_partition_and_ids_to_the_keys [] ["Q2"]
                    "an id of one's own, which nobody else can derive";
                req05_unknown_stays_open_until_it_is_settled [] ["Q3" "Q4" "Q5"]
                    "no answer is taken for a failure, and the payment is made again";
                req06_settled_never_changes [] ["Q3"]
                    "the last answer wins, or the successor may settle once more";
                req07_one_of_many_settlings_lands [] ["Q3"]
                    "the state is checked and then written: two answers both pass the check";
                req08_owner_and_note_of_an_open_one [] ["Q4"]
                    "naming an owner changes the state, or is lost with the tenure";
                req09_sent_again_under_its_own_key_by_the_holder [] ["Q5"]
                    "the second sending has a key of its own, or comes from whoever noticed its age";
                req10_late_answer_is_refused_and_shown [] ["Q6" "E1" "E3"]
                    "the late answer settles, or it is lost, or the next one takes its place";
                req11_lost_answers_send_nothing_by_themselves [] ["Q1" "U3"]
                    "a retry after a lost reply is given leave to send as well";
                req12_open_ones_of_a_long_log [] ["Q5"]
                    "the newest page alone is looked at";
            }
            handover {
                hnd01_first_claim_follows_nobody [] ["H1"]
                    "a generation that nobody was granted has a handover";
                hnd02_tells_who_was_before_and_why_that_ended [] ["H1"]
                    "the handover is kept beside the log, by what the successor believed";
                hnd03_shows_nothing_that_came_after_the_claim [] ["H1"]
                    "the list is made when it is asked for";
                hnd04_open_request_is_carried_on_over_takeovers [] ["H2" "Q5"]
                    "only what the tenure before had sent is looked at, or the sender is the last one";
                hnd05_shows_what_the_predecessor_tried_since [] ["H3" "Q6"]
                    "the rejections of others, or of the tenure while it lasted, are shown too";
            }
            shadow {
                shd01_bears_its_mark_in_the_log [] ["W1" "W3"]
                    "a trial that looks like the real thing in the log";
                shd02_stale_write_is_recorded_by_the_store [] ["W3" "E1" "E3"]
                    "the shadow judges by itself, and nothing durable shows what would have been refused";
                shd03_write_beside_a_holder_is_recorded_by_the_store [] ["W4" "E1"]
                    "who never held the partition is not sent to the store at all, so nothing shows that there were two";
                shd04_claims_anew_where_it_is_free [] ["W5"]
                    "after one refusal a shadow is refused for ever, or it takes the partition before it was refused";
                shd05_gives_way_to_who_enforces_and_stays_away [] ["W5" "W7" "C3"]
                    "a trial that is still on keeps the partition from the first writer that enforces";
                shd06_each_append_is_counted_once_on_a_bad_line [] ["W2" "A4"]
                    "what got no answer is counted twice, or forgotten";
                shd07_report_sums_up_what_the_store_has [] ["W6"]
                    "the report is what the processes remember of it";
            }
        }
    };
}
