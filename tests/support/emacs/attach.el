;;; attach.el --- Emacs' own jsonrpc.el attaches to a daemon  -*- lexical-binding: t; -*-

;; See tests/support/counterparty.py. Run: emacs -Q --batch -l attach.el SOCKET FOLDER MODEL

;;; Code:

(require 'jsonrpc)

(pcase-let* ((`(,path ,cwd ,model) command-line-args-left)
             (seen (list :chain t :kinds []))
             (last nil) (over nil) (connection nil))
  (setq command-line-args-left nil)
  (cl-labels
      ((show (object)
         (send-string-to-terminal (concat (json-serialize object :false-object :json-false) "\n")))
       (remember (&rest more)
         (while more (setq seen (plist-put seen (pop more) (pop more)))))
       (dig (object &rest keys)
         (dolist (key keys object) (setq object (plist-get object key))))
       (ask (method params) (jsonrpc-request connection method params :timeout 30))
       (answer (request)
         (jsonrpc-notify connection :hermes/request/seen (list :requestId request))
         (jsonrpc-async-request connection :hermes/request/answer
                                (list :requestId request :answer '(:optionId "allow_once"))
                                :success-fn #'ignore))
       (event (params)
         (let ((data (plist-get params :data)))
           (remember :chain (and (eq (plist-get seen :chain) t) (eql (plist-get params :prev) last) t)
                     :kinds (vconcat (plist-get seen :kinds) (list (plist-get params :kind))))
           (setq last (plist-get params :seq))
           (pcase (plist-get params :kind)
             ("turn.started" (remember :heard (dig (aref (plist-get data :input) 0) :text) :by (dig data :by :name)))
             ("request.opened"
              (remember :asked (dig data :toolCall :args))
              (answer (plist-get data :requestId)))
             ("request.resolved" (remember :outcome (dig data :outcome) :resolvedBy (dig data :by :name)))
             ("item.completed"
              (when (equal (dig data :item :type) "toolCall") (remember :output (dig data :item :output :text))))
             ("turn.ended" (remember :status (dig data :status)) (setq over t))))))
    (setq connection
          (make-instance
           'jsonrpc-process-connection :name "hermes"
           :process (make-network-process :name "hermes" :family 'local :service path :coding 'utf-8-emacs-unix)
           :notification-dispatcher (lambda (_ method params) (when (eq method 'hermes/event) (event params)))))
    (remember :version
              (dig (ask :initialize
                        '(:capabilities
                          nil
                          :initializationOptions
                          (:hermes (:client (:id "emacs" :name "emacs")
                                    :capabilities (:requests ["permission"])))))
                   :capabilities :experimental :hermes :protocolVersion))
    (jsonrpc-notify connection :initialized nil)
    (remember :refused (condition-case err (ask :hermes/session/get '(:sessionId "none"))
                         (jsonrpc-error (dig (alist-get 'jsonrpc-error-data (cdr err)) :kind))))
    (let* ((session (dig (ask :hermes/session/create (list :cwd cwd :model model)) :session :sessionId))
           (subscribed (ask :hermes/session/subscribe (list :sessionId session))))
      (setq last (plist-get subscribed :seq))
      (remember :mode (dig subscribed :mode) :items (length (dig subscribed :snapshot :items)))
      (show (list :session session))
      (let ((deadline (+ (float-time) 30)))
        (while (and (not over) (< (float-time) deadline)) (accept-process-output nil 1)))
      (unless over (error "The turn did not end")))
    (ask :shutdown nil)
    (jsonrpc-notify connection :exit nil)
    (show seen)))

;;; attach.el ends here
